"""Adam on the rows of a table that a step touches."""

from __future__ import annotations

import torch

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
_CHUNK_ROWS = 512
"""Rows worked on at a time, so that the intermediate results stay in the cache."""


class RowAdam:
    """Adam whose step costs what its rows cost.

    Differs from dense Adam in one thing: a row without gradient in a step keeps its value and its moments, where dense
    Adam would go on moving it and let the moments fade. The bias correction counts all steps. Kingma and Ba 2015,
    algorithm 1.
    """

    def __init__(self, table: torch.Tensor) -> None:
        """`table` (rows, dim) float32 is changed in place."""
        self.table = table
        self.first = torch.zeros_like(table)
        self.second = torch.zeros_like(table)
        self.steps = 0

    def step(self, rows: torch.Tensor, gradient: torch.Tensor, learning_rate: float) -> None:
        """One step: `rows` (r,) distinct row numbers, `gradient` (r, dim) float32 of the loss by those rows."""
        self.steps += 1
        size = learning_rate / (1 - BETA1**self.steps)
        correction = (1 - BETA2**self.steps) ** -0.5
        chunks = zip(rows.split(_CHUNK_ROWS), gradient.split(_CHUNK_ROWS), strict=True)
        for places, slope in chunks:
            first = self.first[places].lerp_(slope, 1 - BETA1)
            second = self.second[places].mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
            self.first[places] = first
            self.second[places] = second
            scale = second.sqrt_().mul_(correction).add_(EPSILON)
            self.table[places] = self.table[places].addcdiv_(first, scale, value=-size)
