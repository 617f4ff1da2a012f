"""Pairs, above all paraphrases, with too many words in common."""

from __future__ import annotations

from collections import Counter

import numpy as np
from pydantic import Field

from mining.filters import FILTERS, Bounds, Filter, PairBatch
from mining.filters._tokens import words


@FILTERS.register("trigram_overlap")
class TrigramOverlap(Filter):
    """Drops pairs by the share of word trigrams that both sides have.

    Wieting and Gimpel 2018, section 6.1 (thesis, section 4).
    """

    cost = 5
    max_trigram_overlap: float | None = Field(default=None, ge=0, le=1)
    """Largest share of word trigrams in common."""

    def bounds(self) -> Bounds | None:
        """At most ``max_trigram_overlap``."""
        return (0, self.max_trigram_overlap) if self.max_trigram_overlap is not None else None

    def score(self, batch: PairBatch) -> np.ndarray:
        """The overlap, from 0 to 1."""
        return np.fromiter(map(trigram_overlap, *batch.texts), np.float64, len(batch))


def trigram_overlap(source: str, target: str) -> float:
    """Word trigrams in common, over the trigrams of the side that has fewer; 0 where a side has
    none. Words as in `words`."""
    first, second = _trigrams(source), _trigrams(target)
    fewer = min(first.total(), second.total())
    return (first & second).total() / fewer if fewer else 0.0


def _trigrams(text: str) -> Counter[tuple[str, str, str]]:
    tokens = words(text)
    return Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))
