"""One mega-batch: hard negatives, then one optimiser step for each of its mini-batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mining.encoder.averaging import bag_sums
from mining.encoder.pieces import Pieces
from mining.training.adam import RowAdam
from mining.training.config import TrainConfig
from mining.training.megabatch import NO_NEGATIVE, false_negatives, hardest_negatives
from mining.training.objectives import margin_loss, normalise, softmax_loss, through_normalisation
from mining.training.prepare import PairPieces

_DROPOUT_STREAM = 1 << 62
"""Keeps the random numbers of the steps apart from those of the epochs."""


@dataclass(frozen=True)
class MegaBatch:
    """Pairs taken together, and the hardest negative of each side (None for an objective that needs none)."""

    source: Pieces
    target: Pieces
    source_groups: np.ndarray
    target_groups: np.ndarray
    negatives: tuple[np.ndarray, np.ndarray] | None

    def __len__(self) -> int:
        return len(self.source_groups)


def gather(pairs: PairPieces, rows: np.ndarray, table: torch.Tensor, config: TrainConfig) -> MegaBatch:
    """The mega-batch of `rows`, its negatives chosen with the vectors as they are now, without gradient."""
    source, target = pairs.source.take(rows), pairs.target.take(rows)
    groups = pairs.source_groups[rows], pairs.target_groups[rows]
    negatives = None
    if config.objective == "margin":
        with torch.inference_mode():
            source_units, target_units = (normalise(_sums(table, pieces))[0] for pieces in (source, target))
            negatives = hardest_negatives(source_units, target_units, false_negatives(*groups))
    return MegaBatch(source, target, groups[0], groups[1], negatives)


def train_minibatch(
    mega: MegaBatch, rows: slice, adam: RowAdam, config: TrainConfig, learning_rate: float, step: int
) -> float:
    """One step on the pairs `rows` of a mega-batch, negatives encoded again with gradient; returns the loss."""
    bags = _drop(_bags(mega, rows), config, step)
    # The mean and the sum of a bag have the same direction, so the loss needs only the sum.
    units, norms = normalise(_sums(adam.table, bags))
    size = len(mega.source_groups[rows])
    loss, gradient = _loss(mega, rows, units.view(-1, size, units.shape[1]), config)
    by_sum = through_normalisation(gradient.view_as(units), units, norms)
    touched, slope = row_gradient(bags, by_sum)
    if config.grad_clip is not None:
        slope.mul_(torch.clamp(config.grad_clip / (slope.norm() + 1e-6), max=1.0))
    adam.step(touched, slope, learning_rate)
    return loss


def row_gradient(bags: Pieces, by_sum: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the gradient by each bag's sum (n, dim) to the gradient by each table row the bags touch.

    Returns the distinct rows (r,) ascending and (r, dim). A row's gradient is the sum over the bags that hold it: the
    same summation of bags again, with pieces and bags changed over, always in the same order.
    """
    order = np.argsort(bags.ids, kind="stable")
    ids = bags.ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)[order]
    offsets = np.append(starts, len(ids))
    gradient = bag_sums(by_sum, _tensor(owner, by_sum), _tensor(offsets, by_sum))
    return _tensor(ids[starts], by_sum), gradient


def _bags(mega: MegaBatch, rows: slice) -> Pieces:
    """Sources, targets and, for the margin, negative targets and negative sources of a mini-batch, end to end."""
    places = np.arange(rows.start, rows.stop)
    parts = [mega.source.take(places), mega.target.take(places)]
    if mega.negatives is not None:
        # Where there is no negative any sentence will do: the loss leaves it out.
        of_source, of_target = (np.maximum(negative[rows], 0) for negative in mega.negatives)
        parts += [mega.target.take(of_source), mega.source.take(of_target)]
    ends = np.cumsum([0, *(len(part.ids) for part in parts)])
    offsets = [part.offsets[:-1] + start for part, start in zip(parts, ends[:-1], strict=True)]
    return Pieces(np.concatenate([part.ids for part in parts]), np.concatenate([*offsets, ends[-1:]]))


def _drop(bags: Pieces, config: TrainConfig, step: int) -> Pieces:
    """Leave out pieces at random; a sentence that would lose all of them keeps them."""
    if not config.dropout:
        return bags
    chance = np.random.Generator(np.random.Philox(key=[config.seed, _DROPOUT_STREAM + step]))
    keep = chance.random(len(bags.ids), dtype=np.float32) >= config.dropout
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)
    left = np.bincount(owner[keep], minlength=len(bags.offsets) - 1)
    return bags.select(keep | (left == 0)[owner])


def _loss(mega: MegaBatch, rows: slice, units: torch.Tensor, config: TrainConfig) -> tuple[float, torch.Tensor]:
    if mega.negatives is None:
        excluded = false_negatives(mega.source_groups[rows], mega.target_groups[rows])
        return softmax_loss(units, config.scale, excluded)
    has_negative = np.stack([negative[rows] != NO_NEGATIVE for negative in mega.negatives])
    return margin_loss(units, config.delta, _tensor(has_negative, units))


def _sums(table: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    return bag_sums(table, _tensor(pieces.ids, table), _tensor(pieces.offsets, table))


def _tensor(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    if values.dtype == np.int32:
        values = values.astype(np.int64)
    return torch.from_numpy(np.ascontiguousarray(values)).to(like.device)
