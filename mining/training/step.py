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
from mining.training.objectives import Cells, Objective, SoftmaxObjective, normalise, through_normalisation

_DROPOUT_STREAM, _SCRAMBLE_STREAM = 1 << 62, 3 << 61
"""Keep the random numbers of the steps apart from those of the epochs and of the negatives."""


@dataclass(frozen=True)
class MegaBatch:
    """n pairs taken together and the negatives chosen among them."""

    texts: list[Tokens]
    """of each unit the ids of 2 n texts: the sources, then the targets"""
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
    shifts = [0 if config.shared else unit.size for unit in pairs.tokenizers]
    texts = [
        _end_to_end(source.take(rows), target.take(rows), shift)
        for source, target, shift in zip(pairs.source, pairs.target, shifts, strict=True)
    ]
    groups = np.asarray(pairs.source_groups[rows]), np.asarray(pairs.target_groups[rows])
    negatives = None
    if objective.negatives:
        equal = EqualTexts(*groups) if config.mask_duplicates else EqualTexts.none(len(rows))
        units = None
        if config.negative_choice != "random":
            with torch.no_grad():
                units = normalise(_vectors(network, texts))[0].split(len(rows))
        negatives = choose_negatives(
            units,
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
    return torch.cat([network.forward([unit.take(block) for unit in texts])[0].detach() for block in blocks])


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
    places = [np.arange(rows.start, rows.stop), np.arange(rows.start, rows.stop) + len(mega)]
    present = None
    if mega.negatives is not None:
        chosen = mega.negatives.blocks(rows)
        present = torch.from_numpy(chosen >= 0).to(adam.network.device)
        # Where there is no negative any sentence will do: the loss leaves it out.
        places.append(np.maximum(chosen, 0).reshape(-1))
    bags = [
        _scramble(_drop(unit.take(np.concatenate(places)), config, step, kind), config, step)
        for kind, unit in enumerate(mega.texts)
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
    units, norms = normalise(vectors)
    loss, gradient = objective(units.view(-1, size, units.shape[1]), present, equal)
    return loss, through_normalisation(gradient.view_as(units), units, norms)


def _equal(mega: MegaBatch, rows: slice, objective: Objective) -> Cells | None:
    """Which sentences of the mini-batch are no wrong translations, for an objective that compares
    within it."""
    if not isinstance(objective, SoftmaxObjective):
        return None
    return false_negatives(mega.source_groups[rows], mega.target_groups[rows])


def _drop(bags: Tokens, config: TrainConfig, step: int, kind: int) -> Tokens:
    """Leave out units at random; a sentence that would lose all of them keeps them."""
    if not config.dropout:
        return bags
    chance = np.random.Generator(np.random.Philox(key=[config.seed + (kind << 40), _DROPOUT_STREAM + step]))
    keep = chance.random(len(bags.ids), dtype=np.float32) >= config.dropout
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)
    left = np.bincount(owner[keep], minlength=len(bags.offsets) - 1)
    return bags.select(keep | (left == 0)[owner])


def _scramble(bags: Tokens, config: TrainConfig, step: int) -> Tokens:
    """Put the units of some sentences in random order (Wieting et al. 2019, section 2:
    scrambling)."""
    if not config.scramble:
        return bags
    chance = np.random.Generator(np.random.Philox(key=[config.seed, _SCRAMBLE_STREAM + step]))
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)
    chosen = chance.random(len(bags.offsets) - 1) < config.scramble
    places = np.where(chosen[owner], chance.random(len(bags.ids)), np.arange(len(bags.ids)) / max(1, len(bags.ids)))
    return Tokens(bags.ids[np.lexsort((places, owner))], bags.offsets)
