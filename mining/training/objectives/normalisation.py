"""From vectors to unit vectors, and their gradients back."""

from __future__ import annotations

import torch

_ROWS = 512
"""Rows worked on at once, while they are in the cache."""


def normalise(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of the rows of `vectors` (n, dim), and their norms (n, 1), never below 1e-12."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_(min=1e-12)
    return vectors / norms, norms


def through_normalisation(gradient: torch.Tensor, units: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    """From the gradient by unit vectors to that by the vectors before: the part along the vector is
    lost.

    All (n, dim), `norms` (n, 1). Overwrites and returns `gradient`.
    """
    for slope, unit, norm in zip(gradient.split(_ROWS), units.split(_ROWS), norms.split(_ROWS), strict=True):
        along = (slope * unit).sum(-1, keepdim=True)
        slope.addcmul_(along, unit, value=-1).div_(norm)
    return gradient
