"""Objectives: the loss on the vectors of a mini-batch, with its gradient.

An objective is one class in one module of this package. Its fields are settings of ``bitext
train``, and its name is a value of ``objective``. The gradients are written out because a step is
mostly memory traffic: each matrix is formed once and worked on in place. The tests compare them
with torch's automatic ones. torch is imported where it is used, so that ``--help`` need not wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from mining.config.base import Settings
from mining.registry import Registry

if TYPE_CHECKING:
    import torch

Cells = tuple[np.ndarray, np.ndarray]
"""Rows and columns of some cells of a matrix."""


class LossGradient(NamedTuple):
    """A loss, averaged over the pairs of the mini-batch, and its gradient by the vectors."""

    loss: float
    gradient: torch.Tensor
    """of the shape, type and device of the vectors"""


class Objective(Settings, ABC):
    """A loss on the vectors of a mini-batch of b pairs, with its gradient.

    Vectors come as one tensor (2 + 2 * negatives, b, dim), contiguous: the sources, the targets,
    then the first, second ... negative of each source, then those of each target.
    """

    help: ClassVar[str]
    """what it is, in a few words"""
    normalised: ClassVar[bool] = True
    """whether it takes unit vectors (its gradient is then by these), else the vectors as the
    network gives them"""
    within_batch: ClassVar[bool] = False
    """whether it compares all pairs of the mini-batch, and so asks which texts are equal"""
    learns: ClassVar[bool] = True
    """False: there is no training"""
    usual_choice: ClassVar[str] = "max"
    """the ``negative_choice`` where none is set"""

    negatives: int = Field(default=0, ge=0)
    """Negatives a side."""

    @abstractmethod
    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient.

        `present` (2, negatives, b) bool: which negatives exist, those of the sources first; a
        missing one costs nothing, whatever its vector (None: all exist). `excluded`: cells (i, j)
        in which target j is no wrong translation of source i, as ``false_negatives`` gives them;
        only an objective that compares within the batch looks at them.
        """


OBJECTIVES: Registry[type[Objective]] = Registry("objective", "mining.training.objectives")


def split(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of the vectors: sources and targets (2, b, dim), their negatives (2, negatives, b,
    dim)."""
    return vectors[:2], vectors[2:].unflatten(0, (2, -1))
