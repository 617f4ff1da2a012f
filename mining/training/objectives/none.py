"""No objective: the random encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mining.training.objectives import OBJECTIVES, Cells, LossGradient, Objective

if TYPE_CHECKING:
    import torch


@OBJECTIVES.register("none")
class NoObjective(Objective):
    """The network stays as it was drawn: the random encoder."""

    help: ClassVar[str] = "no training, the random encoder"
    learns: ClassVar[bool] = False

    def __call__(
        self, vectors: torch.Tensor, present: torch.Tensor | None = None, excluded: Cells | None = None
    ) -> LossGradient:
        """Nothing is lost, and nothing changes."""
        return LossGradient(0.0, vectors.new_zeros(vectors.shape))
