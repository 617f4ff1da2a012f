"""The margin loss with one hard negative a side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from mining.training.objectives.base import Cells, LossGradient


@dataclass(frozen=True)
class MarginObjective:
    """Per pair ``max(0, delta - cos(s, t) + cos(s, t')) + max(0, delta - cos(s, t) + cos(t, s'))``.

    t' and s' are the negatives of the source and of the target. Wieting et al. 2019, section 2;
    both sides as in the code published with it.
    """

    delta: float = 0.4
    negatives: ClassVar[int] = 1
    normalised: ClassVar[bool] = True

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Loss and gradient; see Objective."""
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
