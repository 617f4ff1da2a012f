"""Pairs with sides of unlike length."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from mining.filters import FILTERS, Bounds, Filter, PairBatch


@FILTERS.register("length_ratio")
class LengthRatio(Filter):
    """Drops pairs by the tokens of the longer side for one token of the shorter."""

    cost = 3
    max_ratio: float | None = Field(default=None, ge=1)
    """Most tokens of the longer side for one token of the shorter."""

    def bounds(self) -> Bounds | None:
        """At most ``max_ratio``."""
        return (-np.inf, self.max_ratio) if self.max_ratio is not None else None

    def score(self, batch: PairBatch) -> np.ndarray:
        """Tokens of the longer side over those of the shorter; infinite where that has none."""
        longer, shorter = batch.lengths.max(axis=0), batch.lengths.min(axis=0)
        return np.divide(longer, shorter, out=np.full(len(batch), np.inf), where=shorter > 0)
