"""Filters of sentence pairs: a score of each pair, and the bounds of the scores that are kept.

A filter is one class in one module of this package. Its fields are settings, its name (that of the
module) is the reason under which the pairs that it drops are counted, its docstring is its help::

    @FILTERS.register("max_digits")
    class MaxDigits(Filter):
        \"\"\"Drops pairs with many digits.\"\"\"

        cost = 1
        max_digits: int | None = None
        \"\"\"Most digits of a side.\"\"\"

        def bounds(self) -> Bounds | None:
            return (0, self.max_digits) if self.max_digits is not None else None

        def score(self, batch: PairBatch) -> np.ndarray:
            sides = batch.source, batch.target
            digits = [pc.count_substring_regex(side, "[0-9]") for side in sides]
            return np.maximum(*digits).astype(np.float64)

The score does not depend on the bounds: scores that were kept can be cut again at others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import ModelWrapValidatorHandler, model_validator

from mining.config.base import Settings
from mining.config.corpus import BitextSpec
from mining.config.registered import RegisteredSettings
from mining.filters._tokens import token_length
from mining.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

Bounds = tuple[float, float]
"""Least and greatest score that is kept."""


@dataclass(frozen=True)
class PairBatch:
    """Some pairs of a bitext: its usable rows, as the readers give them."""

    table: pa.Table
    """columns ``source``, ``target``, ``file``, ``line``, and ``score`` where the bitext has one"""
    spec: BitextSpec
    threads: int = 0
    """0: all cores"""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def source(self) -> pa.ChunkedArray:
        """The source texts as an Arrow column."""
        return self.table.column("source")

    @property
    def target(self) -> pa.ChunkedArray:
        """The target texts as an Arrow column."""
        return self.table.column("target")

    @cached_property
    def texts(self) -> tuple[list[str], list[str]]:
        """The texts of both sides as Python strings."""
        return self.source.to_pylist(), self.target.to_pylist()

    @cached_property
    def lengths(self) -> np.ndarray:
        """(2, n) float64: tokens of each side, see `token_length`."""
        return np.array([[token_length(text) for text in side] for side in self.texts], np.float64)

    def where(self, keep: np.ndarray) -> PairBatch:
        """The pairs for which `keep`, (n,) bool, is true."""
        import pyarrow as pa

        return replace(self, table=self.table.filter(pa.array(keep)))


class Filter(Settings, ABC):
    """A score of pairs with the bounds of what is kept; the fields are its settings."""

    cost: ClassVar[int]
    """filters run in ascending order of this, each on what those before it have kept: 1 for a look
    at the characters, 10 for a model"""
    packages: ClassVar[tuple[str, ...]] = ()
    """packages whose version decides the scores"""
    paths: ClassVar[tuple[str, ...]] = ()
    """settings that name files; what counts is in these (`inputs`)"""

    @classmethod
    def name(cls) -> str:
        """The name in the registry, which is the reason that is given for dropped pairs."""
        return cls.__module__.rpartition(".")[2]

    @abstractmethod
    def bounds(self) -> Bounds | None:
        """Least and greatest score that is kept; None where the filter is off."""

    @abstractmethod
    def score(self, batch: PairBatch) -> np.ndarray:
        """(n,) float64: the score of each pair; NaN marks a row that has none and is a bad row.

        Raises InputError, with file and line, where a bad row is an error.
        """

    def keep(self, scores: np.ndarray) -> np.ndarray:
        """(n,) bool: which of the `scores`, (n,), are within the bounds."""
        low, high = self.bounds() or (-np.inf, np.inf)
        return (scores >= low) & (scores <= high)

    def check(self, spec: BitextSpec) -> None:
        """Raise ValueError when the bitext lacks what the score is made from."""

    def begin(self, spec: BitextSpec) -> None:
        """Look for all that is needed before the first row is read; raises UsageError where a
        package is missing or does not fit the bitext."""

    def inputs(self) -> dict[str, str]:
        """What decides the scores beside settings and pairs, by setting: hashes of models."""
        return {}


FILTERS: Registry[type[Filter]] = Registry("filter", "mining.filters")


PARAPHRASES = {
    "min_tokens": 5,
    "max_tokens": 40,
    "min_similarity": 0.4,
    "max_similarity": 1.0,
    "max_trigram_overlap": 0.7,
}
"""What ``paraphrases: true`` stands for, where not set otherwise (Wieting et al. 2022, section 4,
on ParaNMT)."""


_ALWAYS_KEPT = (
    "min_tokens",
    "max_tokens",
    "max_ratio",
    "language_id",
    "duplicates",
    "equal_sides",
    "paraphrases",
    "min_similarity",
    "max_similarity",
    "max_trigram_overlap",
)
"""Settings that prepared pairs are described with whatever their value; others only where they are
set, so that a new filter does not make all prepared pairs those of other settings."""


class FilterSettings(RegisteredSettings):
    """Which pairs are kept: the settings of all filters. One that is None or false is off.

    Lengths are in tokens: words between white space, and for scripts written without spaces (Han,
    kana, Thai, Lao, Khmer, Burmese) half a token for each character.
    """

    duplicates: bool = True
    """Drop a pair whose two sides (but for case, NFKC and white space) came together before."""
    paraphrases: bool = False
    """Filters of paraphrases: 5 to 40 tokens, similarity 0.4 to 1.0, trigram overlap at most 0.7
    (where not set otherwise)."""

    @classmethod
    def parts(cls) -> dict[str, list[type[Settings]]]:
        """The filters, in the order in which they run."""
        return {"paraphrases": [FILTERS[name] for name in reasons()]}

    @model_validator(mode="wrap")
    @classmethod
    def _paraphrases(cls, data: object, handler: ModelWrapValidatorHandler[FilterSettings]) -> FilterSettings:
        preset = PARAPHRASES if isinstance(data, dict) and data.get("paraphrases") is True else {}
        return handler({**preset, **data} if isinstance(data, dict) else data)

    @model_validator(mode="after")
    def _ordered(self) -> FilterSettings:
        for kind in ("tokens", "similarity"):
            low, high = (getattr(self, f"{end}_{kind}") for end in ("min", "max"))
            if None not in (low, high) and low > high:
                raise ValueError(f"min_{kind} {low} is above max_{kind} {high}")
        return self

    def active(self) -> list[Filter]:
        """The filters that are on, in the order in which they run."""
        parts = (self.part(FILTERS[name]) for name in FILTERS)
        return sorted((part for part in parts if part.bounds() is not None), key=lambda part: part.cost)

    def deciding(self) -> dict[str, object]:
        """The settings by which prepared pairs are told from those of other filters."""
        paths = [key for name in FILTERS for key in FILTERS[name].paths]
        other = [key for key in self.fields() if key not in (*_ALWAYS_KEPT, *paths)]
        set_ = [key for key in other if getattr(self, key) != self.fields()[key].get_default(call_default_factory=True)]
        return {key: getattr(self, key) for key in (*_ALWAYS_KEPT, *set_)}


def reasons() -> list[str]:
    """The names of all filters, in the order in which they run."""
    return sorted(FILTERS, key=lambda name: FILTERS[name].cost)


def judge(batch: PairBatch, filters: Sequence[Filter]) -> np.ndarray:
    """(n,) of str or None: for each pair the filter that drops it, ``bad_row`` for one that cannot
    be scored, None for a pair that stays.

    The filters are asked in their order, each for the pairs that those before it have kept.
    """
    from mining.schemas import Reason

    found = np.full(len(batch), None, object)
    rows = np.arange(len(batch))
    for one in filters:
        if not len(rows):
            break
        scores = one.score(batch)
        keep = one.keep(scores)
        if not keep.all():
            found[rows[~keep]] = one.name()
            found[rows[np.isnan(scores)]] = Reason.BAD_ROW
            rows, batch = rows[keep], batch.where(keep)
    return found
