"""The objectives as the papers write them, one pair at a time; torch finds their gradients."""

from __future__ import annotations

import numpy as np
import torch


def _negatives(vectors: torch.Tensor, present: torch.Tensor, side: int, pair: int) -> list[torch.Tensor]:
    k = present.shape[1]
    return [vectors[2 + side * k + place, pair] for place in range(k) if present[side, place, pair]]


def margin(vectors: torch.Tensor, delta: float, present: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), dtype=vectors.dtype)
    for pair in range(vectors.shape[1]):
        source, target = vectors[0, pair], vectors[1, pair]
        for side, sentence in enumerate((source, target)):
            for wrong in _negatives(vectors, present, side, pair):
                total = total + (delta - source @ target + sentence @ wrong).clamp(min=0)
    return total / vectors.shape[1]


def j_bi(vectors: torch.Tensor, delta: float, present: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), dtype=vectors.dtype)
    for pair in range(vectors.shape[1]):
        source, target = vectors[0, pair], vectors[1, pair]
        for side, sentence in enumerate((source, target)):
            for wrong in _negatives(vectors, present, side, pair):
                distances = ((source - target) ** 2).sum() - ((sentence - wrong) ** 2).sum()
                total = total + (delta + distances).clamp(min=0)
    return total / vectors.shape[1]


def softmax(
    vectors: torch.Tensor, scale: float, margin: float, groups: np.ndarray, present: torch.Tensor
) -> torch.Tensor:
    pairs = vectors.shape[1]
    total = torch.zeros((), dtype=vectors.dtype)
    for pair in range(pairs):
        for side in (0, 1):
            sentence, others = vectors[side, pair], vectors[1 - side]
            right = scale * (sentence @ others[pair] - margin)
            logits = [right]
            for other in range(pairs):
                if other != pair and not set(groups[:, other]) & set(groups[:, pair]):
                    logits.append(scale * (sentence @ others[other]))
            logits += [scale * (sentence @ wrong) for wrong in _negatives(vectors, present, side, pair)]
            total = total + torch.logsumexp(torch.stack(logits), 0) - right
    return total / (2 * pairs)
