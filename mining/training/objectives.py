"""The two objectives on cosines of a mini-batch; their gradients are torch's."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize


def margin_loss(vectors: torch.Tensor, delta: float, has_negative: torch.Tensor) -> torch.Tensor:
    """Hinge loss of both directions, averaged over the pairs.

    `vectors` (4, b, dim): sources s, targets t, the hard negative target t' of each source and the hard negative
    source s' of each target; any length. `has_negative` (2, b) bool: whether t' and s' exist; a missing one costs
    nothing. Per pair ``max(0, delta - cos(s, t) + cos(s, t')) + max(0, delta - cos(s, t) + cos(t, s'))``.
    Wieting et al. 2019, section 2; both sides as in their published code.
    """
    source, target, wrong_target, wrong_source = normalize(vectors, dim=-1)
    right = (source * target).sum(-1)
    wrong = torch.stack(((source * wrong_target).sum(-1), (target * wrong_source).sum(-1)))
    hinge = (delta - right + wrong).clamp(min=0) * has_negative
    return hinge.sum(0).mean()


def softmax_loss(vectors: torch.Tensor, scale: float, excluded: tuple[np.ndarray, np.ndarray]) -> torch.Tensor:
    """Cross entropy of the translation among all sentences of the batch's other side, averaged over both directions.

    `vectors` (2, b, dim): sources and targets, any length; logits are ``scale * cos``. `excluded`: the cells of
    ``false_negatives``, which count neither as right nor as wrong (except the translation itself).
    """
    source, target = normalize(vectors, dim=-1)
    logits = scale * (source @ target.T)
    rows, columns = excluded
    wrong = rows != columns
    hidden = torch.zeros_like(logits, dtype=torch.bool)
    hidden[torch.from_numpy(rows[wrong]).to(logits.device), torch.from_numpy(columns[wrong]).to(logits.device)] = True
    logits = logits.masked_fill(hidden, -torch.inf)
    truth = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, truth) + cross_entropy(logits.T, truth)) / 2
