"""Mega-batches: how they grow, and the hardest negative inside one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

NO_NEGATIVE = -1
_BLOCK_CELLS = 1 << 21
"""Similarities held at once (8 MiB): small enough to stay in the cache until both maxima are found."""


@dataclass
class MegaBatchSchedule:
    """Which mini-batches form the next mega-batch, as in the code published with Wieting et al. 2019.

    ``current`` mini-batches are taken at a time. It starts at one and grows by one at the first refill after the
    position in the epoch has passed a multiple of ``anneal``, up to ``largest``; ``anneal`` 0 takes ``largest`` from
    the start. ``current`` and ``grow`` live on from epoch to epoch; ``position`` starts again at each.
    """

    largest: int
    anneal: int
    current: int = 1
    grow: bool = False
    position: int = 0

    def refill(self, minibatches: int) -> range:
        """The next mini-batches of an epoch of `minibatches`; an empty range is the end of the epoch."""
        start = self.position
        if self.anneal == 0:
            self.current = self.largest
        elif self.grow and self.current < self.largest:
            self.current += 1
            self.grow = False
        self.position = min(start + self.current, minibatches)
        if self.anneal and self.position // self.anneal > start // self.anneal:
            self.grow = True
        return range(start, self.position)

    def restart(self) -> None:
        """Begin a new epoch."""
        self.position = 0


def false_negatives(source_groups: np.ndarray, target_groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells (i, j) in which target j is no wrong translation of source i: the same source or target as in pair i.

    `source_groups` and `target_groups` (n,) give equal numbers to equal piece sequences. Returns row and column
    numbers, the diagonal included, each cell at least once. The relation is symmetric, so it serves both directions.
    """
    parts = [_same_group(groups) for groups in (source_groups, target_groups)]
    diagonal = np.arange(len(source_groups))
    rows = np.concatenate([diagonal, *(part[0] for part in parts)])
    columns = np.concatenate([diagonal, *(part[1] for part in parts)])
    return rows, columns


def _same_group(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[:1]] - 1))
    sizes = np.diff(starts, append=len(groups))
    repeated = sizes > 1
    sizes, starts = sizes[repeated], starts[repeated]
    if not len(sizes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Each member of a group of g faces all g members.
    faces = np.repeat(sizes, sizes)
    members = _ramp(sizes) + np.repeat(starts, sizes)
    others = _ramp(faces) + np.repeat(np.repeat(starts, sizes), faces)
    return order[np.repeat(members, faces)], order[others]


def _ramp(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ... up to each size, end to end."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)


def hardest_negatives(
    source: torch.Tensor, target: torch.Tensor, excluded: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of a mega-batch the most similar wrong sentence of the other language, in both directions.

    `source` and `target` (n, dim) float32 unit rows; `excluded` the cells of ``false_negatives``. Returns two (n,)
    int64 arrays: the target row for each source, and the source row for each target; -1 where every cell is excluded.
    The lowest row wins a tie. Blocks of rows bound the memory. Wieting et al. 2019, section 2 (negative sampling).
    """
    n = len(source)
    rows_a_block = max(1, _BLOCK_CELLS // max(1, n))
    rows, columns = excluded
    order = np.argsort(rows, kind="stable")
    rows, columns = rows[order], columns[order]
    of_source = np.empty(n, np.int64)
    best_value = torch.full((n,), -torch.inf, dtype=source.dtype, device=source.device)
    best_row = torch.full((n,), NO_NEGATIVE, dtype=torch.int64, device=source.device)
    for start in range(0, n, rows_a_block):
        stop = min(start + rows_a_block, n)
        block = source[start:stop] @ target.T
        first, last = np.searchsorted(rows, (start, stop))
        cells = (_index(rows[first:last] - start, block), _index(columns[first:last], block))
        block[cells] = -torch.inf
        value, column = block.max(dim=1)
        of_source[start:stop] = torch.where(value > -torch.inf, column, NO_NEGATIVE).cpu().numpy()
        # The largest value of a column is found fast, its place slowly: so only where it beats the blocks before.
        value = block.amax(dim=0)
        better = torch.nonzero(value > best_value).flatten()
        best_value[better] = value[better]
        best_row[better] = block[:, better].argmax(dim=0) + start
    return of_source, best_row.cpu().numpy()


def _index(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.device)
