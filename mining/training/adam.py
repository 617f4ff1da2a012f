"""Adam on the parameters of a network: on the rows of its tables that a step touches, on its
weights as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from mining.encoder.networks import Gradients, Network

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
_CHUNK_ROWS = 1024
"""Rows worked on at a time, so that the intermediate results stay in the cache."""


class Adam:
    """Adam whose step costs what its rows cost.

    Differs from dense Adam in one thing: a row without gradient in a step keeps its value and its
    moments, where dense Adam would go on moving it and let the moments fade. The bias correction
    counts all steps. Kingma and Ba 2015, algorithm 1.

    ``l2`` adds ``l2 / 2 * |row|^2`` to the loss and ``pull`` the same of the distance from the
    `initial` tables, both on the rows of the step only (Wieting et al. 2016, the objective of
    PARAGRAM-PHRASE; Elgohary and Carpuat 2016).
    """

    def __init__(
        self, network: Network, *, l2: float = 0.0, pull: float = 0.0, initial: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """The parameters of `network` are changed in place."""
        self.network = network
        self.l2, self.pull = l2, pull
        self.initial = dict(initial or {})
        self.first = {name: torch.zeros_like(tensor) for name, tensor in network.tensors().items()}
        self.second = {name: torch.zeros_like(tensor) for name, tensor in network.tensors().items()}
        self.steps = 0

    def step(self, gradients: Gradients, learning_rate: float) -> None:
        """One step in the direction of `gradients`, which it may overwrite."""
        self.steps += 1
        size = learning_rate / (1 - BETA1**self.steps)
        correction = (1 - BETA2**self.steps) ** -0.5
        for name, (rows, slope) in gradients.rows.items():
            for touched, part in zip(rows.split(_CHUNK_ROWS), slope.split(_CHUNK_ROWS), strict=True):
                self._rows(name, touched, part, size, correction)
        for name, slope in gradients.weights.items():
            scale = _moments(self.first[name], self.second[name], slope, correction)
            self.network.weights[name].addcdiv_(self.first[name], scale, value=-size)

    def _rows(self, name: str, rows: torch.Tensor, slope: torch.Tensor, size: float, correction: float) -> None:
        table, firsts, seconds = self.network.tables[name], self.first[name], self.second[name]
        # Three times as fast as table[rows].
        values, first, second = (tensor.index_select(0, rows) for tensor in (table, firsts, seconds))
        if self.l2:
            slope.add_(values, alpha=self.l2)
        if self.pull and name in self.initial:
            slope.add_(values - self.initial[name].index_select(0, rows), alpha=self.pull)
        scale = _moments(first, second, slope, correction)
        firsts.index_copy_(0, rows, first)
        seconds.index_copy_(0, rows, second)
        table.index_copy_(0, rows, values.addcdiv_(first, scale, value=-size))


def clip(gradients: Gradients, largest: float) -> None:
    """Scale all gradients so that their common norm is at most `largest`."""
    slopes = [slope for _, slope in gradients.rows.values()] + list(gradients.weights.values())
    norm = torch.stack([slope.norm() for slope in slopes]).norm()
    factor = torch.clamp(largest / (norm + 1e-6), max=1.0)
    for slope in slopes:
        slope.mul_(factor)


def _moments(first: torch.Tensor, second: torch.Tensor, slope: torch.Tensor, correction: float) -> torch.Tensor:
    """Update the moments in place; what the first is divided by."""
    first.lerp_(slope, 1 - BETA1)
    second.mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
    return second.sqrt().mul_(correction).add_(EPSILON)
