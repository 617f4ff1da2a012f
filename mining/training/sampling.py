"""Which pairs come when: those of an epoch, and how many of them form a mega-batch."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass
class MegaBatchSchedule:
    """Which mini-batches form the next mega-batch, as in the code published with Wieting et al.
    2019.

    ``current`` mini-batches are taken at a time. It starts at one and grows by one at the first
    refill after the position in the epoch has passed a multiple of ``anneal``, up to ``largest``;
    ``anneal`` 0 takes ``largest`` from the start. ``current`` and ``grow`` live on from epoch to
    epoch; ``position`` starts again at each.
    """

    largest: int
    anneal: int
    current: int = 1
    grow: bool = False
    position: int = 0

    def refill(self, minibatches: int) -> range:
        """The next mini-batches of an epoch of `minibatches`; an empty range is the end of the
        epoch."""
        start = self.position
        if self.anneal == 0:
            self.current = self.largest
        elif self.grow and self.current < self.largest:
            self.current += 1
            self.grow = False
        self.position = min(start + self.current, minibatches)
        if self.anneal and self.position // self.anneal > start // self.anneal:
            self.grow = True
        return range(start, self.position)

    def restart(self) -> None:
        """Begin a new epoch."""
        self.position = 0
