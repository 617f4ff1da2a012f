"""Mega-batches: how they grow."""

from __future__ import annotations

from dataclasses import dataclass


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
