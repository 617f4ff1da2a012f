"""The squared Euclidean hinge of Elgohary and Carpuat."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from mining.training.objectives import OBJECTIVES, Cells, LossGradient, Objective, split

if TYPE_CHECKING:
    import torch


@OBJECTIVES.register("j_bi")
class EuclideanObjective(Objective):
    """J_bi: for each of k random negatives a side ``max(0, delta + |s - t|^2 - |s - t'|^2)``, and
    the same from t.

    The hinges of a pair are added up, over the negatives and both sides; the pairs of the
    mini-batch are averaged (the paper adds them up). Its term ``lambda / 2 * |W|^2`` is not here:
    the optimiser applies it to the table. The paper composes by the sum of the word vectors, here
    the network decides. With negatives drawn from both sides it is the monolingual twin. Elgohary
    and Carpuat 2016, section 2.2, equation 1; they tried delta 1, 10, 100 and k 1, 5, 10,
    15.
    """

    help: ClassVar[str] = "squared Euclidean hinge"
    normalised: ClassVar[bool] = False
    usual_choice: ClassVar[str] = "random"
    delta: float = Field(default=0.4, gt=0)
    """Margin of the objectives margin and j_bi."""
    negatives: int = Field(default=10, ge=1)
    """Negatives a side."""

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient; see Objective."""
        import torch

        ends, wrongs = split(vectors)
        pairs = vectors.shape[1]
        gradient = torch.empty_like(vectors)
        by_ends, by_wrongs = split(gradient)
        between = torch.sub(ends[0], ends[1], out=by_ends[0])
        apart = torch.sub(ends[:, None], wrongs, out=by_wrongs)
        hinge = _squares(apart).neg_().add_(_squares(between)).add_(self.delta).clamp_(min=0)
        if present is not None:
            hinge.mul_(present)
        active = (hinge > 0).to(vectors.dtype).mul_(2 / pairs)
        apart.mul_(active[..., None])
        between.mul_(active.sum((0, 1))[:, None])
        # Moving all vectors alike changes nothing: what the negatives gain, the sentence they
        # belong to loses.
        torch.neg(between, out=by_ends[1])
        for number in range(self.negatives):
            by_ends.sub_(by_wrongs[:, number])
        return LossGradient(float(hinge.sum()) / pairs, gradient)


def _squares(vectors: torch.Tensor) -> torch.Tensor:
    """Squared lengths along the last dimension, without a copy of the vectors."""
    import torch

    return torch.linalg.vector_norm(vectors, dim=-1).square_()
