"""The margin loss with one hard negative a side."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from mining.training.objectives import OBJECTIVES, Cells, LossGradient, Objective

if TYPE_CHECKING:
    import torch


@OBJECTIVES.register("margin")
class MarginObjective(Objective):
    """Per pair ``max(0, delta - cos(s, t) + cos(s, t')) + max(0, delta - cos(s, t) + cos(t, s'))``.

    t' and s' are the negatives of the source and of the target. Wieting et al. 2019, section 2;
    both sides as in the code published with it.
    """

    help: ClassVar[str] = "hinge against hard negatives of the mega-batch"
    delta: float = Field(default=0.4, gt=0)
    """Margin of the objectives margin and j_bi."""

    negatives: int = 1
    """Negatives a side: one, whatever is set."""

    @field_validator("negatives", mode="before")
    @classmethod
    def _one(cls, value: object) -> int:
        return 1

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient; see Objective."""
        import torch

        ends, wrongs = vectors[:2], vectors[2:]
        source, target = ends
        pairs = vectors.shape[1]
        # The gradient's memory serves for the products first.
        gradient = torch.empty_like(vectors)
        right = torch.mul(source, target, out=gradient[2]).sum(-1)
        hinge = torch.mul(ends, wrongs, out=gradient[:2]).sum(-1)
        hinge.sub_(right).add_(self.delta).clamp_(min=0)
        if present is not None:
            hinge.mul_(present[:, 0])
        active = (hinge > 0).to(vectors.dtype).div_(pairs)[..., None]
        both = active[0] + active[1]
        torch.mul(active, ends, out=gradient[2:])
        torch.mul(active, wrongs, out=gradient[:2])
        gradient[0].addcmul_(both, target, value=-1)
        gradient[1].addcmul_(both, source, value=-1)
        return LossGradient(float(hinge.sum()) / pairs, gradient)
