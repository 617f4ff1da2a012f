"""Negatives inside a mega-batch: the hardest, random ones, or both; and the texts that must not be
taken for wrong.

The hardest are searched tile by tile of the cosine matrix, in both directions at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch

from mining.training.objectives import Cells

Kind = Literal["max", "mix", "random"]
Pool = Literal["bilingual", "monolingual"]

_HARDEST_SHARE = 0.5
"""Wieting's MIX: hardest with probability one half."""
_STREAM = 1 << 61
"""Keeps these random numbers apart from those of the epochs and of the steps."""
_DRAWS = 8
"""Random draws before the allowed sentences of a text are counted out."""
NO_NEGATIVE = -1
_TILE = 1024
"""Sentences a side of a tile: 4 MiB of cosines, which stay in the cache until both directions are
searched."""
_TILE_ON_DEVICE = 8192
"""The same on an accelerator, whose time goes into starting kernels."""
_COLUMNS_A_GROUP = 64
_ROWS_A_GROUP = 16


class Negatives(NamedTuple):
    """Chosen rows of a mega-batch of n pairs: 0..n-1 are its sources, n..2n-1 its targets, -1 is no
    negative."""

    of_source: np.ndarray
    """(n, k) int64"""
    of_target: np.ndarray
    """(n, k) int64"""

    def blocks(self, pairs: slice) -> np.ndarray:
        """Rows of the negatives of some pairs, (2, k, b) int64: in the order in which an objective
        takes vectors."""
        return np.stack([side[pairs].T for side in self])


class EqualTexts:
    """Which pairs of a mega-batch share a text, so that a sentence of one is no wrong translation
    in the other.

    `source_groups` and `target_groups` (n,) int64 give equal numbers to equal texts, whichever side
    they stand on. A relation of pairs serves both directions and both sides: what is paired with an
    equal text is left out like the equal text itself.
    """

    def __init__(self, source_groups: np.ndarray, target_groups: np.ndarray) -> None:
        self.n = len(source_groups)
        self.source, self.target = np.asarray(source_groups), np.asarray(target_groups)
        texts = np.concatenate((self.source, self.target))
        self._order = np.argsort(texts, kind="stable")
        starts = np.flatnonzero(np.diff(texts[self._order], prepend=texts[self._order[:1]] - 1))
        sizes = np.diff(starts, append=len(texts))
        self._start, self._size = np.empty((2, len(texts)), np.int64)
        self._start[self._order] = np.repeat(starts, sizes)
        self._size[self._order] = np.repeat(sizes, sizes)

    @classmethod
    def none(cls, n: int) -> EqualTexts:
        """Every pair related only to itself, whatever its texts: the published behaviour."""
        return cls(np.arange(n), np.arange(n, 2 * n))

    def cells(self, start: int, stop: int) -> Cells:
        """Related pairs (i, j) with ``start <= i < stop``: row and column numbers, every cell at
        least once.

        The diagonal is included. Asked for in blocks, so that a text repeated thousands of times
        bounds the memory.
        """
        own = np.arange(start, stop)
        texts = np.concatenate((own, own + self.n))
        texts = texts[self._size[texts] > 1]
        sizes = self._size[texts]
        ends = np.cumsum(sizes)
        ranks = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self._start[texts] - (ends - sizes), sizes)
        rows, columns = np.repeat(texts, sizes), self._order[ranks]
        other = rows != columns
        rows, columns = rows[other] % max(1, self.n), columns[other] % max(1, self.n)
        return np.concatenate((own, rows)), np.concatenate((own, columns))

    def related(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether the pairs `one` and `other` (pair numbers of any shape that broadcasts) are
        related; bool."""
        source, target = self.source, self.target
        straight = (source[one] == source[other]) | (target[one] == target[other])
        return straight | (source[one] == target[other]) | (target[one] == source[other])


def false_negatives(source_groups: np.ndarray, target_groups: np.ndarray) -> Cells:
    """Cells (i, j) in which target j is no wrong translation of source i: the pairs i and j share a
    text.

    The groups as in EqualTexts. Returns row and column numbers, the diagonal included, each cell at
    least once. The relation is symmetric, so it serves both directions.
    """
    return EqualTexts(source_groups, target_groups).cells(0, len(source_groups))


def choose_negatives(
    vectors: tuple[torch.Tensor, torch.Tensor] | None,
    equal: EqualTexts,
    *,
    k: int = 1,
    kind: Kind = "max",
    pool: Pool = "bilingual",
    seed: int = 0,
    mega_batch: int = 0,
) -> Negatives:
    """Choose k negatives for each source and each target inside a mega-batch.

    `vectors`: unit vectors of sources and targets, each (n, dim), as the model is now; None will do
    for ``random``. `equal`: the pairs to be kept apart; ``EqualTexts.none(n)`` masks only the own
    pair, as the published code does.

    `kind` ``max`` takes the k most similar, the most similar first; ``random`` draws k
    independently and evenly, so one may come twice; ``mix`` tosses a coin for each rank: the
    sentence of that rank, or a random one. `pool` ``bilingual`` offers the other side,
    ``monolingual`` both sides. -1 stands where nothing is allowed; a pair alone in its mega-batch
    has no negative (the published code would take its own translation).

    Random numbers come from Philox with the key (seed, `mega_batch`), so that a run taken up again
    repeats them. Wieting et al. 2019, section 2 (negative sampling); MAX and MIX: Wieting 2020,
    section 3.1.3.1, where the coin is tossed per example.
    """
    monolingual = pool == "monolingual"
    if kind == "random":
        return Negatives(*_draw(equal, k, monolingual, _generator(seed, mega_batch)))
    if vectors is None:
        raise ValueError(f"negatives of the kind {kind!r} need the vectors of the mega-batch")
    best = hardest(*vectors, equal.cells, k, monolingual=monolingual)
    if kind == "max":
        return Negatives(*best)
    chance = _generator(seed, mega_batch)
    drawn = _draw(equal, k, monolingual, chance)
    heads = chance.random((2, equal.n, k)) < _HARDEST_SHARE
    return Negatives(*map(_mixed, heads, best, drawn))


def _mixed(heads: np.ndarray, best: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The hardest where the coin, (n, k) bool, says so; beyond the allowed sentences there is no
    hardest: the random one."""
    return np.where(heads & (best != NO_NEGATIVE), best, drawn)


def _generator(seed: int, mega_batch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, _STREAM + mega_batch]))


def _draw(equal: EqualTexts, k: int, monolingual: bool, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random allowed rows, (n, k) for the sources and for the targets."""
    n = equal.n
    own = np.broadcast_to(np.arange(n)[:, None], (2, n, k)).reshape(-1)
    pairs = np.full(own.shape, NO_NEGATIVE, np.int64)
    undrawn = np.arange(len(own)) if n > 1 else np.zeros(0, np.int64)
    for _ in range(_DRAWS):
        if not len(undrawn):
            break
        drawn = chance.integers(0, n - 1, len(undrawn))
        drawn += drawn >= own[undrawn]
        pairs[undrawn] = drawn
        undrawn = undrawn[equal.related(own[undrawn], drawn)]
    for pair in np.unique(own[undrawn]):
        allowed = np.flatnonzero(~equal.related(pair, np.arange(n)))
        left = undrawn[own[undrawn] == pair]
        pairs[left] = chance.choice(allowed, len(left)) if len(allowed) else NO_NEGATIVE
    drawn_pairs = pairs.reshape(2, n, k)
    in_target = chance.random(drawn_pairs.shape) < 0.5 if monolingual else np.array([True, False])[:, None, None]
    rows = np.where(drawn_pairs == NO_NEGATIVE, NO_NEGATIVE, drawn_pairs + n * in_target)
    return rows[0], rows[1]


class Best:
    """The k best negatives found so far for each of `n` sentences, the best first; ties go to the
    one found first."""

    def __init__(self, n: int, k: int, like: torch.Tensor) -> None:
        self.values = torch.full((n, k), -torch.inf, dtype=like.dtype, device=like.device)
        self.rows = torch.full((n, k), NO_NEGATIVE, dtype=torch.int64, device=like.device)
        self.k = k

    def insert(self, sentences: torch.Tensor, values: torch.Tensor, rows: torch.Tensor) -> None:
        """Offer one more negative to each of the `sentences`, each better than that
        sentence's last one."""
        if self.k == 1:
            self.values[sentences, 0] = values
            self.rows[sentences, 0] = rows
            return
        values = torch.cat((self.values[sentences], values[:, None]), dim=1)
        rows = torch.cat((self.rows[sentences], rows[:, None]), dim=1)
        values, order = values.sort(dim=1, descending=True, stable=True)
        self.values[sentences] = values[:, : self.k]
        self.rows[sentences] = rows.gather(1, order)[:, : self.k]


def hardest(
    source: torch.Tensor, target: torch.Tensor, cells: Callable[[int, int], Cells], k: int, *, monolingual: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The k most similar allowed sentences for each source and for each target.

    `source` and `target`: (n, dim) unit vectors, on any device. ``cells(start, stop)`` gives the
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

    The largest value is found fast, its index slowly. So the index is sought only in lines that
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
