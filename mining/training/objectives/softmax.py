"""Cross entropy of the translation among the sentences of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from mining.training.objectives.base import Cells, LossGradient, split

LARGEST_LOGIT = 80.0
"""``exp`` of a logit and of its negative stay within float32 without being shifted."""
_ROWS = 512
"""Rows of the matrix of cosines worked on at once, while they are in the cache."""


@dataclass(frozen=True)
class SoftmaxObjective:
    """Cross entropy of the translation among all sentences of the batch's other side, both
    directions averaged.

    Logits are ``scale * cos``; that of the translation is ``scale * (cos - margin)`` (additive
    margin: Yang et al. 2019, "Improving multilingual sentence embedding using bi-directional dual
    encoder with additive margin softmax"). Each sentence is also compared with its own `negatives`
    further ones. Excluded cells count neither as right nor as wrong. ValueError when ``scale * (1 +
    margin)`` is above 80, where the exponentials would leave float32, or a setting is negative.
    """

    scale: float = 20.0
    margin: float = 0.0
    negatives: int = 0
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError(f"scale {self.scale:g} has to be above 0")
        if self.margin < 0 or self.negatives < 0:
            raise ValueError("the margin and the number of negatives of the softmax must not be negative")
        if self.scale * (1 + self.margin) > LARGEST_LOGIT:
            raise ValueError(f"scale {self.scale:g} and margin {self.margin:g}: scale * (1 + margin) is above 80")

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient; see Objective."""
        pairs = vectors.shape[1]
        # The gradient's memory serves for the products first.
        gradient = torch.empty_like(vectors)
        further = self._further(vectors, present, gradient)
        weights, sums, right = self._weights(vectors[:2], excluded, gradient[0])
        if further is not None:
            sums += further.sum(1)
        loss = sums.log().mean() - right
        factors = sums.reciprocal_().mul_(self.scale / (2 * pairs))
        _gradient_within(weights, factors, self.scale / pairs, vectors[:2], gradient)
        if further is not None:
            _spread(further.mul_(factors[:, None])[..., None], vectors, gradient)
        return LossGradient(float(loss), gradient)

    def _weights(
        self, ends: torch.Tensor, excluded: Cells | None, scratch: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Exponentials of the logits (b, b), their sums by source and by target (2, b), and the
        mean right logit."""
        source, target = torch.mul(ends[0], self.scale, out=scratch), ends[1]
        pairs = len(source)
        weights = source.new_empty((pairs, pairs))
        right, sums = source.new_empty(pairs), source.new_zeros((2, pairs))
        hidden = _wrong_cells(excluded)
        for start in range(0, pairs, _ROWS):
            stop = min(start + _ROWS, pairs)
            block = torch.mm(source[start:stop], target.T, out=weights[start:stop])
            own = block.diagonal(start)
            own.sub_(self.scale * self.margin)
            right[start:stop] = own
            _hide(block.exp_(), hidden, start)
            torch.sum(block, 1, out=sums[0, start:stop])
            sums[1] += block.sum(0)
        return weights, sums, right.mean()

    def _further(
        self, vectors: torch.Tensor, present: torch.Tensor | None, scratch: torch.Tensor
    ) -> torch.Tensor | None:
        """Weights of the negatives (2, negatives, b), zero for those that are missing."""
        if not self.negatives:
            return None
        ends, wrongs = split(vectors)
        products = torch.mul(wrongs, ends[:, None], out=split(scratch)[1])
        further = products.sum(-1).mul_(self.scale).exp_()
        return further if present is None else further.mul_(present)


def _wrong_cells(excluded: Cells | None) -> Cells:
    """The excluded cells off the diagonal, ascending by row."""
    if excluded is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows, columns = excluded
    wrong = np.flatnonzero(rows != columns)
    wrong = wrong[np.argsort(rows[wrong], kind="stable")]
    return rows[wrong], columns[wrong]


def _hide(block: torch.Tensor, cells: Cells, start: int) -> None:
    first, last = np.searchsorted(cells[0], (start, start + len(block)))
    if first < last:
        rows, columns = (torch.from_numpy(side[first:last]).to(block.device) for side in cells)
        block[rows - start, columns] = 0.0


def _gradient_within(
    weights: torch.Tensor, factors: torch.Tensor, own: float, ends: torch.Tensor, gradient: torch.Tensor
) -> None:
    """From the weights to the gradient by sources and targets, the weights becoming the gradient by
    the cosines.

    `factors` (2, b): what a weight counts for its source and for its target; `own`: what the right
    cosine loses.
    """
    source, target = ends
    for start in range(0, len(source), _ROWS):
        rows = slice(start, start + _ROWS)
        block = weights[rows].mul_(factors[0, rows, None] + factors[1])
        block.diagonal(start).sub_(own)
        torch.mm(block, target, out=gradient[0, rows])
        if start:
            gradient[1].addmm_(block.T, source[rows])
        else:
            torch.mm(block.T, source[rows], out=gradient[1])


def _spread(by_cosine: torch.Tensor, vectors: torch.Tensor, gradient: torch.Tensor) -> None:
    """The gradient of the negatives, and their part in that of the sentences they belong to."""
    ends, wrongs = split(vectors)
    torch.mul(by_cosine, ends[:, None], out=split(gradient)[1])
    for place in range(wrongs.shape[1]):
        gradient[:2].addcmul_(by_cosine[:, place], wrongs[:, place])
