"""The most similar wrong sentences inside a mega-batch, tile by tile of the cosine matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

Cells = tuple[np.ndarray, np.ndarray]

NO_NEGATIVE = -1
_TILE = 1024
"""Sentences a side of a tile: 4 MiB of cosines, which stay in the cache until both directions are
searched."""
_TILE_ON_DEVICE = 8192
"""The same on an accelerator, whose time goes into starting kernels."""
_COLUMNS_A_GROUP = 64
_ROWS_A_GROUP = 16


class Best:
    """The k best negatives found so far for each of `n` sentences, the best first; ties go to the
    one found first."""

    def __init__(self, n: int, k: int, like: torch.Tensor) -> None:
        self.values = torch.full((n, k), -torch.inf, dtype=like.dtype, device=like.device)
        self.rows = torch.full((n, k), NO_NEGATIVE, dtype=torch.int64, device=like.device)
        self.k = k

    def insert(self, places: torch.Tensor, values: torch.Tensor, rows: torch.Tensor) -> None:
        """Offer one more negative to each of the sentences `places`, each better than that
        sentence's last one."""
        if self.k == 1:
            self.values[places, 0] = values
            self.rows[places, 0] = rows
            return
        values = torch.cat((self.values[places], values[:, None]), dim=1)
        rows = torch.cat((self.rows[places], rows[:, None]), dim=1)
        values, order = values.sort(dim=1, descending=True, stable=True)
        self.values[places] = values[:, : self.k]
        self.rows[places] = rows.gather(1, order)[:, : self.k]


def hardest(
    source: torch.Tensor, target: torch.Tensor, cells: Callable[[int, int], Cells], k: int, *, monolingual: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The k most similar allowed sentences for each source and for each target.

    `source` and `target` (n, dim) unit rows on any device. ``cells(start, stop)`` gives the
    excluded pairs (i, j) with ``start <= i < stop``, the diagonal included; the relation has to be
    symmetric. Returns two (n, k) int64 arrays of rows, the hardest first: 0..n-1 are the sources,
    n..2n-1 the targets, -1 is none. `monolingual` searches both sides, else the other one. The
    lowest row wins a tie. Memory beside the arguments: one tile.
    """
    n = len(source)
    of_source, of_target = Best(n, k, source), Best(n, k, source)
    # In this order every sentence meets its candidates by ascending row, so that the first of
    # equals is the lowest.
    if monolingual:
        _search_self(source, of_source, cells, 0)
    _search_across(source, target, (of_source, of_target), cells)
    if monolingual:
        _search_self(target, of_target, cells, n)
    return of_source.rows.cpu().numpy(), of_target.rows.cpu().numpy()


def _search_across(
    source: torch.Tensor, target: torch.Tensor, best: tuple[Best, Best], cells: Callable[[int, int], Cells]
) -> None:
    n, size = len(source), _tile_size(source)
    for start in range(0, n, size):
        excluded = _by_column(cells(start, min(start + size, n)))
        for first in range(0, n, size):
            tile = _Tile(source[start : start + size], target[first : first + size])
            tile.hide(excluded, start, first)
            _take(tile.by_row(), tile.rows, best[0], start, n + first)
            _take(tile.by_column(), tile.columns, best[1], first, start)


def _search_self(side: torch.Tensor, best: Best, cells: Callable[[int, int], Cells], offset: int) -> None:
    """Within one side the cosines are symmetric: only the tiles on and above the diagonal are
    formed."""
    n, size = len(side), _tile_size(side)
    for start in range(0, n, size):
        excluded = _by_column(cells(start, min(start + size, n)))
        for first in range(start, n, size):
            tile = _Tile(side[start : start + size], side[first : first + size])
            tile.hide(excluded, start, first)
            _take(tile.by_row(), tile.rows, best, start, offset + first)
            if first > start:
                _take(tile.by_column(), tile.columns, best, first, offset + start)


def _tile_size(like: torch.Tensor) -> int:
    return _TILE if like.device.type == "cpu" else _TILE_ON_DEVICE


def _by_column(cells: Cells) -> Cells:
    order = np.argsort(cells[1], kind="stable")
    return cells[0][order], cells[1][order]


class _Tile:
    """Cosines of some rows with some columns, padded with -inf to whole groups."""

    def __init__(self, left: torch.Tensor, right: torch.Tensor) -> None:
        self.rows, self.columns = len(left), len(right)
        shape = (_whole(self.rows, _ROWS_A_GROUP), _whole(self.columns, _COLUMNS_A_GROUP))
        self.cosines = left.new_empty(shape)
        torch.mm(left, right.T, out=self.cosines[: self.rows, : self.columns])
        self.cosines[self.rows :] = -torch.inf
        self.cosines[:, self.columns :] = -torch.inf

    def hide(self, cells: Cells, start: int, first: int) -> None:
        """Leave out the `cells` (ascending by column) of a tile whose corner is (start, first)."""
        begin, end = np.searchsorted(cells[1], (first, first + self.columns))
        if begin < end:
            rows, columns = (torch.from_numpy(side[begin:end]).to(self.cosines.device) for side in cells)
            self.cosines[rows - start, columns - first] = -torch.inf

    def by_row(self) -> torch.Tensor:
        """(rows, groups, columns of a group)"""
        return self.cosines.unflatten(1, (-1, _COLUMNS_A_GROUP))

    def by_column(self) -> torch.Tensor:
        """(columns, groups, rows of a group), a view whose lines do not lie together in memory"""
        return self.cosines.unflatten(0, (-1, _ROWS_A_GROUP)).permute(2, 0, 1)


def _whole(count: int, group: int) -> int:
    return -(-count // group) * group


def _take(lines: torch.Tensor, count: int, best: Best, first: int, offset: int) -> None:
    """Merge the k largest of each of the first `count` lines (line, group, member) into `best` from
    `first` on.

    The largest value is found fast, its place slowly. So the place is sought only in lines that
    beat what is known, and only in the first group that holds the value.
    """
    taken = []
    for _ in range(best.k):
        peaks = _peaks(lines)
        values = peaks.amax(dim=1)[:count]
        better = torch.nonzero(values > best.values[first : first + count, -1]).flatten()
        if not len(better):
            break
        values = values[better]
        groups = peaks[better].argmax(dim=1)
        members = lines[better, groups].argmax(dim=1)
        best.insert(first + better, values, offset + groups * lines.shape[2] + members)
        if best.k > 1:
            lines[better, groups, members] = -torch.inf
            taken.append((better, groups, members, values))
    for better, groups, members, values in taken:
        lines[better, groups, members] = values


def _peaks(lines: torch.Tensor) -> torch.Tensor:
    """The largest member of each group (line, group); torch is slow here unless the last dimension
    is contiguous."""
    if lines.stride(2) == 1:
        return lines.amax(dim=2)
    return lines.permute(1, 2, 0).amax(dim=1).T
