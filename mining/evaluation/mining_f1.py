"""Precision, recall and F1 that an encoder reaches on a mining task, in memory and by the kernels
of `mining.mine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mining.api import Searched, Side, Texts, match_texts, search_texts
from mining.checks import check_names
from mining.corpus import CorpusSpec, read_rows
from mining.errors import InputError
from mining.evaluation.bucc import BuccResult, evaluate_pairs
from mining.evaluation.folds import CrossValidation, cross_validate
from mining.evaluation.gold import Gold, read_gold
from mining.schemas import Reason

if TYPE_CHECKING:
    from mining.encoder import Encoder

_LEDGER = pa.schema([("side", pa.string()), ("id", pa.string()), ("reason", pa.string()), ("kept_id", pa.string())])


@dataclass(frozen=True)
class MarginResult:
    """Outcome for one margin: `tuned` with the threshold of the best F1 on all gold pairs,
    `held_out` by folds.

    `held_out` is None when no folds were asked for.
    """

    tuned: BuccResult
    held_out: CrossValidation | None

    @property
    def f1(self) -> float:
        """F1 with the threshold tuned on all gold pairs, between 0 and 1."""
        return self.tuned.f1

    def to_dict(self) -> dict[str, Any]:
        """Plain data with sorted keys, shares between 0 and 1 with six decimals."""
        report = self.tuned.to_dict()
        report["cross_validation"] = self.held_out.to_dict() if self.held_out is not None else None
        return dict(sorted(report.items()))


@dataclass(frozen=True)
class MiningTask:
    """Two piles of sentences with their ids, and the gold pairs of ids; "" stands for a text that
    cannot be used."""

    source_ids: list[str]
    source: list[str]
    target_ids: list[str]
    target: list[str]
    gold: Gold


def _read_side(spec: CorpusSpec) -> tuple[list[str], list[str]]:
    texts: dict[str, str] = {}
    for row in read_rows(spec):
        if row.id in texts:
            raise InputError(f"{row.file}, line {row.line}: the id '{row.id}' stands twice: give every row its own")
        texts[row.id] = row.texts[0] if row.reason in (None, Reason.BLANK) else ""
    if not texts:
        raise InputError(f"{', '.join(spec.paths)}: holds no sentences")
    return list(texts), list(texts.values())


def read_mining_task(source: CorpusSpec, target: CorpusSpec, gold: str | Path) -> MiningTask:
    """Read both sides and the gold whole; raises InputError for faulty content and an id that
    stands twice."""
    return MiningTask(*_read_side(source), *_read_side(target), read_gold(gold))


def _ledger_rows(name: str, side: Side, valid: Any) -> list[dict[str, str | None]]:
    kept = side.rows.ids.to_pylist()
    rows: list[dict[str, str | None]] = []
    for row_id, row in zip(side.ids, side.row.tolist(), strict=True):
        if row < 0:
            rows.append({"side": name, "id": row_id, "reason": Reason.BLANK, "kept_id": None})
        elif kept[row] != row_id:
            rows.append({"side": name, "id": row_id, "reason": Reason.DUPLICATE, "kept_id": kept[row]})
        elif not valid[row]:
            rows.append({"side": name, "id": row_id, "reason": Reason.NO_PIECES, "kept_id": None})
    return rows


def drop_ledger(searched: Searched) -> pa.Table:
    """The rows that were not searched, with the columns of ``dropped.parquet`` that evaluation
    reads."""
    rows = _ledger_rows("source", searched.source, searched.source_valid)
    rows += _ledger_rows("target", searched.target, searched.target_valid)
    return pa.Table.from_pylist(rows, schema=_LEDGER)


def mining_f1(
    encoder: Encoder,
    source: Texts,
    target: Texts,
    gold: Gold,
    margins: Sequence[str] = ("ratio", "absolute"),
    strategy: str = "max",
    k: int = 4,
    folds: int | None = 5,
    *,
    source_ids: Texts | None = None,
    target_ids: Texts | None = None,
    target_encoder: Encoder | None = None,
    threads: int = 0,
) -> dict[str, MarginResult]:
    """Mine and compare with gold, for each of `margins`; texts are encoded and searched once.

    The gold names rows by `source_ids` and `target_ids`, by default their positions. The threshold
    is tuned on all gold pairs and, with `folds`, held out fold by fold. `target_encoder` encodes
    the target side where a model keeps its languages apart; `threads` 0 uses every core. The pairs
    are those of `mining.mine`, and so the figures those of ``bitext mine --gold`` and ``bitext
    evaluate bucc``.

    Raises InputError for gold ids that are not among the ids, UsageError when k exceeds a side or
    folds the gold, and ValueError for an unknown margin or strategy.

    >>> result = mining_f1(encoder, german, english, read_gold("de-en.gold"))  # doctest: +SKIP
    >>> result["ratio"].f1, result["ratio"].held_out.f1  # doctest: +SKIP
    """
    for margin in margins:
        check_names(margin, strategy)
    searched = search_texts(
        source,
        target,
        encoder,
        k,
        source_ids=source_ids,
        target_ids=target_ids,
        target_encoder=target_encoder,
        threads=threads,
    )
    return _measured(searched, gold, margins, strategy, folds, threads)


def _measured(
    searched: Searched, gold: Gold, margins: Sequence[str], strategy: str, folds: int | None, threads: int
) -> dict[str, MarginResult]:
    dropped = drop_ledger(searched)
    known = frozenset(searched.source.ids), frozenset(searched.target.ids)
    results = {}
    for margin in margins:
        pairs = match_texts(searched, margin, strategy, threads=threads)
        tuned = evaluate_pairs(pairs, gold, dropped, None, "tune", *known)
        held_out = cross_validate(pairs, gold, dropped, folds) if folds is not None else None
        results[margin] = MarginResult(tuned, held_out)
    return results


def task_f1(encoder: Encoder, task: MiningTask, **options: Any) -> dict[str, MarginResult]:
    """`mining_f1` of a task that was read; `options` are its other arguments."""
    named: dict[str, Any] = {"source_ids": task.source_ids, "target_ids": task.target_ids, **options}
    return mining_f1(encoder, task.source, task.target, task.gold, **named)
