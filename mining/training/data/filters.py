"""The filters of pairs: for each pair the reason to drop it, or None."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mining.config.data import FilterSettings
from mining.corpus import BitextSpec, Row
from mining.errors import InputError
from mining.schemas import Reason
from mining.training.data.language import LanguageJudge
from mining.training.data.measures import equal_sides, length_ratio, token_length, trigram_overlap

if TYPE_CHECKING:
    from mining.encoder import Encoder


class PairFilter:
    """The filters that look at one pair alone, cheap ones first; the first reason found is the one
    counted."""

    def __init__(self, settings: FilterSettings, spec: BitextSpec, encoder: Encoder | None, threads: int = 0) -> None:
        """`encoder` gives the similarity of pairs without a score; raises UsageError when a library
        is missing."""
        self._settings = settings
        self._spec = spec
        self._encoder = encoder
        self._threads = threads
        self._languages = LanguageJudge(spec.languages) if settings.language_id and spec.languages else None
        self._single = self._single_checks()

    def reasons(self, rows: Sequence[Row]) -> list[str | None]:
        """Why each of the usable `rows` is dropped; None for those that stay."""
        reasons = [self._reason(row) for row in rows]
        if self._settings.by_similarity:
            self._judge(rows, reasons, self._dissimilar)
        if self._languages is not None:
            self._judge(rows, reasons, self._foreign)
        return reasons

    def _single_checks(self) -> list[Callable[[str, str], str | None]]:
        settings = self._settings
        checks: list[Callable[[str, str], str | None]] = []
        if settings.min_tokens > 1 or settings.max_tokens is not None or settings.max_ratio is not None:
            checks.append(self._length)
        if settings.equal_sides:
            checks.append(lambda source, target: Reason.EQUAL_SIDES if equal_sides(source, target) else None)
        if (most := settings.max_trigram_overlap) is not None:
            checks.append(
                lambda source, target: Reason.TRIGRAM_OVERLAP if trigram_overlap(source, target) > most else None
            )
        return checks

    def _reason(self, row: Row) -> str | None:
        source, target = row.texts
        for check in self._single:
            reason = check(source, target)
            if reason is not None:
                return reason
        return None

    def _length(self, source: str, target: str) -> str | None:
        settings = self._settings
        first, second = token_length(source), token_length(target)
        if min(first, second) < settings.min_tokens:
            return Reason.TOO_FEW_TOKENS
        if settings.max_tokens is not None and max(first, second) > settings.max_tokens:
            return Reason.TOO_MANY_TOKENS
        if settings.max_ratio is not None and length_ratio(first, second) > settings.max_ratio:
            return Reason.LENGTH_RATIO
        return None

    def _judge(
        self, rows: Sequence[Row], reasons: list[str | None], judge: Callable[[list[Row]], list[str | None]]
    ) -> None:
        """Put the verdicts of `judge` on the rows that have no reason yet into `reasons`."""
        places = [place for place, reason in enumerate(reasons) if reason is None]
        for place, verdict in zip(places, judge([rows[place] for place in places]), strict=True):
            reasons[place] = verdict

    def _dissimilar(self, rows: list[Row]) -> list[str | None]:
        low = self._settings.min_similarity if self._settings.min_similarity is not None else -math.inf
        high = self._settings.max_similarity if self._settings.max_similarity is not None else math.inf
        values = self._scores(rows) if self._spec.score is not None else self._cosines(rows)
        return [
            Reason.BAD_ROW if value is None else Reason.SIMILARITY if not low <= value <= high else None
            for value in values
        ]

    def _scores(self, rows: list[Row]) -> list[float | None]:
        return [self._score(row) for row in rows]

    def _score(self, row: Row) -> float | None:
        try:
            value = float(row.extra[-1])
        except ValueError:
            value = math.nan
        if not math.isnan(value):
            return value
        if self._spec.on_bad_row == "skip":
            return None
        raise InputError(
            f"{row.file}, line {row.line}: '{row.extra[-1][:40]}' in column '{self._spec.score}' is no number: "
            "correct it, or set on_bad_row: skip"
        )

    def _cosines(self, rows: list[Row]) -> list[float | None]:
        """Cosine of the sides; -1 where a side has no vector, rounded so that 1.0 means equal
        vectors."""
        if self._encoder is None or not rows:
            return [-1.0] * len(rows)
        (source, known), (target, also) = (
            self._encoder.encode([row.texts[side] for row in rows], threads=self._threads) for side in (0, 1)
        )
        cosines = np.einsum("nd,nd->n", source.astype(np.float64), target.astype(np.float64))
        return np.where(known & also, cosines.round(6), -1.0).tolist()

    def _foreign(self, rows: list[Row]) -> list[str | None]:
        judge = self._languages
        if judge is None:
            return [None] * len(rows)
        return [None if judge.accepts(row.texts[0], row.texts[1]) else Reason.LANGUAGE for row in rows]
