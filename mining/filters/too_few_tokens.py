"""Pairs with a short side."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from mining.filters import FILTERS, Bounds, Filter, PairBatch


@FILTERS.register("too_few_tokens")
class TooFewTokens(Filter):
    """Drops pairs by the tokens of the shorter side.

    1 keeps dictionary entries; the published trainings took 3.
    """

    cost = 1
    min_tokens: int = Field(default=1, ge=1)
    """Fewest tokens of either side; 1 keeps dictionary entries, the published trainings took 3."""

    def bounds(self) -> Bounds | None:
        """Every text has a token: 1 is off."""
        return (self.min_tokens, np.inf) if self.min_tokens > 1 else None

    def score(self, batch: PairBatch) -> np.ndarray:
        """Tokens of the shorter side."""
        return batch.lengths.min(axis=0)
