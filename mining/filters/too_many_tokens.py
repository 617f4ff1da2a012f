"""Pairs with a long side."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from mining.filters import FILTERS, Bounds, Filter, PairBatch


@FILTERS.register("too_many_tokens")
class TooManyTokens(Filter):
    """Drops pairs by the tokens of the longer side."""

    cost = 2
    max_tokens: int | None = Field(default=100, ge=1)
    """Most tokens of either side."""

    def bounds(self) -> Bounds | None:
        """At most ``max_tokens``."""
        return (-np.inf, self.max_tokens) if self.max_tokens is not None else None

    def score(self, batch: PairBatch) -> np.ndarray:
        """Tokens of the longer side."""
        return batch.lengths.max(axis=0)
