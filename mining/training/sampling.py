"""Which pairs an epoch is made of."""

from __future__ import annotations

import numpy as np

from mining.training.data import PreparedPairs


class Sampler:
    """Draws the pairs of each epoch by the weights of their domains.

    A pair of weight w comes floor(w) times, and once more with probability w - floor(w). Equal
    weights of one make every epoch a permutation. Numbers are drawn from (seed, epoch), so an epoch
    can be drawn again.
    """

    def __init__(self, pairs: PreparedPairs, seed: int) -> None:
        self._seed = seed
        self._count = len(pairs)
        weights = np.array([domain.weight for domain in pairs.domains], np.float32)
        self._uneven = bool((weights != 1).any())
        self._weights, self._domain = weights, pairs.domain
        sizes = np.array([domain.pairs for domain in pairs.domains], np.float64)
        self.expected = max(1, round(float((sizes * weights).sum())))
        """pairs an epoch has on average"""

    def epoch(self, number: int) -> np.ndarray:
        """Rows of the epoch in the order of training, (n,) int64."""
        chance = np.random.Generator(np.random.Philox(key=[self._seed, number]))
        if not self._uneven:
            return chance.permutation(self._count)
        weights = self._weights[self._domain]
        times = np.floor(weights)
        times += chance.random(self._count, dtype=np.float32) < weights - times
        rows = np.repeat(np.arange(self._count), times.astype(np.int64))
        chance.shuffle(rows)
        return rows
