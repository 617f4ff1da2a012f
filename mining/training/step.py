"""One mega-batch: its negatives, then one optimiser step for each of its mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mining.config.train import TrainConfig
from mining.encoder.networks import Network
from mining.encoder.tokens import Tokens
from mining.training.adam import Adam, clip
from mining.training.data import PreparedPairs
from mining.training.negatives import EqualTexts, Negatives, choose_negatives, false_negatives
from mining.training.objectives import Cells, Objective

_DROPOUT_STREAM, _SCRAMBLE_STREAM = 1 << 62, 3 << 61
"""Keep the random numbers of the steps apart from those of the epochs and of the negatives."""


@dataclass(frozen=True)
class MegaBatch:
    """n pairs taken together and the negatives chosen among them."""

    texts: list[Tokens]
    """of each tokenizer the ids of 2 n texts: the sources, then the targets"""
    source_groups: np.ndarray
    target_groups: np.ndarray
    negatives: Negatives | None

    def __len__(self) -> int:
        return len(self.source_groups)


def gather(
    pairs: PreparedPairs, rows: np.ndarray, network: Network, config: TrainConfig, number: int, objective: Objective
) -> MegaBatch:
    """The mega-batch of `rows`, its negatives chosen with the vectors as they are now, without
    gradient.

    `number` names the mega-batch among all of the training: random negatives are drawn by it.
    """
    shifts = [0 if config.shared else tokenizer.size for tokenizer in pairs.tokenizers]
    texts = [
        _end_to_end(source.take(rows), target.take(rows), shift)
        for source, target, shift in zip(pairs.source, pairs.target, shifts, strict=True)
    ]
    groups = np.asarray(pairs.source_groups[rows]), np.asarray(pairs.target_groups[rows])
    negatives = None
    if objective.negatives:
        equal = EqualTexts(*groups) if config.mask_duplicates else EqualTexts.none(len(rows))
        vectors = None
        if config.negative_choice != "random":
            with torch.no_grad():
                vectors = normalise(_vectors(network, texts))[0].split(len(rows))
        negatives = choose_negatives(
            vectors,
            equal,
            k=objective.negatives,
            kind=config.negative_choice,
            pool=config.negative_pool,
            seed=config.seed,
            mega_batch=number,
        )
    return MegaBatch(texts, groups[0], groups[1], negatives)


_FORWARD_TEXTS = 8192


def _vectors(network: Network, texts: Sequence[Tokens]) -> torch.Tensor:
    """Vectors of all texts, a block at a time: a network may need far more memory than its
    result."""
    count = len(texts[0].lengths)
    blocks = [np.arange(start, min(start + _FORWARD_TEXTS, count)) for start in range(0, count, _FORWARD_TEXTS)]
    return torch.cat([network.forward([tokens.take(block) for tokens in texts])[0].detach() for block in blocks])


def _end_to_end(source: Tokens, target: Tokens, shift: int) -> Tokens:
    ids = np.concatenate((source.ids, target.ids + shift if shift else target.ids))
    return Tokens(ids, np.concatenate((source.offsets, target.offsets[1:] + source.offsets[-1])))


def train_minibatch(
    mega: MegaBatch,
    rows: slice,
    adam: Adam,
    objective: Objective,
    config: TrainConfig,
    learning_rate: float,
    step: int,
) -> float:
    """One step on the pairs `rows` of a mega-batch, negatives encoded again with gradient; returns
    the loss."""
    size = rows.stop - rows.start
    texts = [np.arange(rows.start, rows.stop), np.arange(rows.start, rows.stop) + len(mega)]
    present = None
    if mega.negatives is not None:
        chosen = mega.negatives.blocks(rows)
        present = torch.from_numpy(chosen >= 0).to(adam.network.device)
        # Where there is no negative any sentence will do: the loss leaves it out.
        texts.append(np.maximum(chosen, 0).reshape(-1))
    bags = [
        _scramble(_drop(tokens.take(np.concatenate(texts)), config, step, kind), config, step)
        for kind, tokens in enumerate(mega.texts)
    ]
    vectors, backward = adam.network.forward(bags)
    vectors = vectors.detach()
    loss, gradient = _loss(objective, vectors, size, present, _equal(mega, rows, objective))
    gradients = backward(gradient)
    if config.grad_clip is not None:
        clip(gradients, config.grad_clip)
    adam.step(gradients, learning_rate)
    return loss


def _loss(
    objective: Objective, vectors: torch.Tensor, size: int, present: torch.Tensor | None, equal: Cells | None
) -> tuple[float, torch.Tensor]:
    """The loss of a mini-batch and its gradient by the vectors (s * b, dim) as the network gave
    them."""
    if not objective.normalised:
        loss, gradient = objective(vectors.view(-1, size, vectors.shape[1]), present, equal)
        return loss, gradient.view_as(vectors)
    directions, norms = normalise(vectors)
    loss, gradient = objective(directions.view(-1, size, directions.shape[1]), present, equal)
    return loss, through_normalisation(gradient.view_as(directions), directions, norms)


def _equal(mega: MegaBatch, rows: slice, objective: Objective) -> Cells | None:
    """Which sentences of the mini-batch are no wrong translations, for an objective that compares
    within it."""
    if not objective.within_batch:
        return None
    return false_negatives(mega.source_groups[rows], mega.target_groups[rows])


def _drop(bags: Tokens, config: TrainConfig, step: int, kind: int) -> Tokens:
    """Leave out tokens at random; a sentence that would lose all of them keeps them."""
    if not config.dropout:
        return bags
    chance = np.random.Generator(np.random.Philox(key=[config.seed + (kind << 40), _DROPOUT_STREAM + step]))
    keep = chance.random(len(bags.ids), dtype=np.float32) >= config.dropout
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)
    left = np.bincount(owner[keep], minlength=len(bags.offsets) - 1)
    return bags.select(keep | (left == 0)[owner])


def _scramble(bags: Tokens, config: TrainConfig, step: int) -> Tokens:
    """Put the tokens of some sentences in random order (Wieting et al. 2019, section 2:
    scrambling)."""
    if not config.scramble:
        return bags
    chance = np.random.Generator(np.random.Philox(key=[config.seed, _SCRAMBLE_STREAM + step]))
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)
    chosen = chance.random(len(bags.offsets) - 1) < config.scramble
    ranks = np.where(chosen[owner], chance.random(len(bags.ids)), np.arange(len(bags.ids)) / max(1, len(bags.ids)))
    return Tokens(bags.ids[np.lexsort((ranks, owner))], bags.offsets)


_NORMALISED_ROWS = 512
"""Rows worked on at once, while they are in the cache."""


def normalise(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of the rows of `vectors` (n, dim), and their norms (n, 1), never below 1e-12."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_(min=1e-12)
    return vectors / norms, norms


def through_normalisation(gradient: torch.Tensor, directions: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
    """From the gradient by unit vectors to that by the vectors before: the part along the vector is
    lost.

    All (n, dim), `norms` (n, 1). Overwrites and returns `gradient`.
    """
    blocks = (one.split(_NORMALISED_ROWS) for one in (gradient, directions, norms))
    for slope, direction, norm in zip(*blocks, strict=True):
        along = (slope * direction).sum(-1, keepdim=True)
        slope.addcmul_(along, direction, value=-1).div_(norm)
    return gradient
