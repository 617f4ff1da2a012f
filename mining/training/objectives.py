"""The two objectives on the unit vectors of a mini-batch, with their gradients.

The gradients are written out because a step is mostly memory traffic: each matrix of cosines is formed once and worked
on in place. The tests compare them with torch's automatic ones.
"""

from __future__ import annotations

import numpy as np
import torch

Cells = tuple[np.ndarray, np.ndarray]


def margin_loss(units: torch.Tensor, delta: float, has_negative: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Hinge loss of both directions, averaged over the pairs, and its gradient.

    `units` (4, b, dim) float32 unit vectors: sources s, targets t, the hard negative target t' of each source and the
    hard negative source s' of each target. `has_negative` (2, b) bool: whether t' and s' exist; a missing one costs
    nothing. Per pair ``max(0, delta - cos(s, t) + cos(s, t')) + max(0, delta - cos(s, t) + cos(t, s'))``.
    Returns the loss and the gradient by `units`. Wieting et al. 2019, section 2; both sides as in their published code.
    """
    source, target, wrong_target, wrong_source = units
    right = (source * target).sum(-1)
    wrong = torch.stack(((source * wrong_target).sum(-1), (target * wrong_source).sum(-1)))
    hinge = (delta - right + wrong).clamp_(min=0).mul_(has_negative)
    pairs = units.shape[1]
    active = (hinge > 0).to(units.dtype).div_(pairs)[:, :, None]
    both = active[0] + active[1]
    gradient = torch.empty_like(units)
    torch.sub(active[0] * wrong_target, both * target, out=gradient[0])
    torch.sub(active[1] * wrong_source, both * source, out=gradient[1])
    torch.mul(active[0], source, out=gradient[2])
    torch.mul(active[1], target, out=gradient[3])
    return float(hinge.sum()) / pairs, gradient


def softmax_loss(units: torch.Tensor, scale: float, excluded: Cells) -> tuple[float, torch.Tensor]:
    """Cross entropy of the translation among all sentences of the batch's other side, both directions averaged.

    `units` (2, b, dim) float32 unit vectors: sources and targets; logits are ``scale * cos``. `excluded`: the cells of
    ``false_negatives``, which count neither as right nor as wrong (except the translation itself). Returns the loss and
    the gradient by `units`. Cosines are at most 1, so ``exp(scale * (cos - 1))`` is safe for scales up to 40.
    """
    source, target = units
    pairs = units.shape[1]
    right = (source * target).sum(-1)
    weights = torch.mm(source, target.T).sub_(1).mul_(scale).exp_()
    _hide(weights, excluded)
    by_source, by_target = weights.sum(1), weights.sum(0)
    loss = (by_source.log() + by_target.log()).mean() / 2 - scale * (right - 1).mean()
    factor = scale / (2 * pairs)
    share = torch.reciprocal(by_source)[:, None] + torch.reciprocal(by_target)[None, :]
    share.mul_(weights).mul_(factor)
    gradient = torch.empty_like(units)
    torch.addmm(target, share, target, beta=-2 * factor, out=gradient[0])
    torch.addmm(source, share.T, source, beta=-2 * factor, out=gradient[1])
    return float(loss), gradient


def _hide(weights: torch.Tensor, excluded: Cells) -> None:
    rows, columns = excluded
    wrong = rows != columns
    if wrong.any():
        cells = [torch.from_numpy(side[wrong]).to(weights.device) for side in (rows, columns)]
        weights[cells[0], cells[1]] = 0.0


def normalise(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of the rows of `vectors` (n, dim), and their norms (n, 1), never below 1e-12."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_(min=1e-12)
    return vectors / norms, norms


def through_normalisation(gradient: torch.Tensor, units: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    """From the gradient by unit vectors to that by the vectors before: the part along the vector is lost.

    All (n, dim), `norms` (n, 1). Overwrites and returns `gradient`.
    """
    along = (gradient * units).sum(-1, keepdim=True)
    return gradient.addcmul_(along, units, value=-1).div_(norms)
