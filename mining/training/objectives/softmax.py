"""Cross entropy of the translation among the sentences of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field, model_validator

from mining.training.objectives import OBJECTIVES, Cells, LossGradient, Objective, split

if TYPE_CHECKING:
    import torch

LARGEST_LOGIT = 80.0
"""``exp`` of a logit and of its negative stay within float32 without being shifted."""
_ROWS = 512
"""Rows of the matrix of cosines worked on at once, while they are in the cache."""


@OBJECTIVES.register("softmax")
class SoftmaxObjective(Objective):
    """Cross entropy of the translation among all sentences of the batch's other side, both
    directions averaged.

    Logits are ``scale * cos``; that of the translation is ``scale * (cos - additive_margin)``: Yang
    et al. 2019, "Improving multilingual sentence embedding using bi-directional dual encoder with
    additive margin softmax". Each sentence is also compared with its own `negatives` further ones.
    Excluded cells count neither as right nor as wrong. ``scale * (1 + additive_margin)`` is at most
    80, where the exponentials stay within float32.
    """

    help: ClassVar[str] = "cross entropy against the whole batch"
    within_batch: ClassVar[bool] = True
    scale: float = Field(default=20.0, gt=0)
    """Inverse temperature of the objective softmax."""
    additive_margin: float = Field(default=0.0, ge=0)
    """Taken from the translation's cosine by softmax."""

    @model_validator(mode="after")
    def _within_float32(self) -> SoftmaxObjective:
        if self.scale * (1 + self.additive_margin) > LARGEST_LOGIT:
            raise ValueError(f"scale {self.scale} is too large: scale * (1 + additive_margin) must not exceed 80")
        return self

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient; see Objective."""
        import torch

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
        import torch

        source, target = torch.mul(ends[0], self.scale, out=scratch), ends[1]
        pairs = len(source)
        weights = source.new_empty((pairs, pairs))
        right, sums = source.new_empty(pairs), source.new_zeros((2, pairs))
        hidden = _wrong_cells(excluded)
        for start in range(0, pairs, _ROWS):
            stop = min(start + _ROWS, pairs)
            block = torch.mm(source[start:stop], target.T, out=weights[start:stop])
            own = block.diagonal(start)
            own.sub_(self.scale * self.additive_margin)
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
        import torch

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
    import torch

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
    import torch

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
    import torch

    ends, wrongs = split(vectors)
    torch.mul(by_cosine, ends[:, None], out=split(gradient)[1])
    for number in range(wrongs.shape[1]):
        gradient[:2].addcmul_(by_cosine[:, number], wrongs[:, number])
