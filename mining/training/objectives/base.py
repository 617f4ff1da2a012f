"""What every objective takes and gives."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

Cells = tuple[np.ndarray, np.ndarray]


class LossGradient(NamedTuple):
    """A loss, averaged over the pairs of the mini-batch, and its gradient by the vectors."""

    loss: float
    gradient: torch.Tensor
    """of the shape, type and device of the vectors"""


class Objective(Protocol):
    """A loss on the vectors of a mini-batch of b pairs, with its gradient.

    Vectors come as one tensor (2 + 2 * negatives, b, dim), contiguous: the sources, the targets,
    then the first, second ... negative of each source, then those of each target.
    """

    @property
    def negatives(self) -> int:
        """How many negatives a side it takes."""

    @property
    def normalised(self) -> bool:
        """Whether it takes unit vectors (its gradient is then by these), else the vectors as the
        network gives them."""

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient.

        `present` (2, negatives, b) bool: which negatives exist, those of the sources first; a
        missing one costs nothing, whatever its vector (None: all exist). `excluded`: cells (i, j)
        in which target j is no wrong translation of source i, as ``false_negatives`` gives them;
        only an objective that compares within the batch looks at them.
        """


def split(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of the vectors: sources and targets (2, b, dim), their negatives (2, negatives, b,
    dim)."""
    return vectors[:2], vectors[2:].unflatten(0, (2, -1))
