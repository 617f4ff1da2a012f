"""Words seen before and their pieces, in bounded memory, shared by the threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from mining.config.encode import WORD_MEMORY as WORD_MIB
from mining.encoder.word_cache import table_kernels as kernels

WORD_MEMORY = WORD_MIB << 20
"""Bytes that a table of words may take: some four million words."""
_FEWEST_SLOTS = 64
_SLOT_BYTES = 24


class WordStatistics(NamedTuple):
    """How often the table of words helped, and what it takes."""

    looked_up: int
    """words of all texts so far"""
    hits: int
    """of them in the table"""
    words: int
    """distinct words in the table now"""
    memory: int
    """bytes it takes now"""
    cleared: int
    """times that it was full and began anew"""

    @property
    def hit_rate(self) -> float:
        """Share of the words that were in the table; 0 before the first."""
        return self.hits / self.looked_up if self.looked_up else 0.0


class Snapshot(NamedTuple):
    """Arrays of a table; `slots` and `keys` only hold while the table is being read."""

    slots: np.ndarray
    """(power of two, 3) uint64, see `table_kernels`"""
    keys: np.ndarray
    """(k,) uint8: bytes of the longer words"""
    pool: np.ndarray
    """(p,) int32: the words' pieces; what is written in it never changes"""


class NewWords(NamedTuple):
    """Distinct words that were not in the table, with their pieces."""

    data: np.ndarray
    """uint8: word i is ``data[starts[i]:starts[i + 1]]``"""
    starts: np.ndarray
    """(n + 1,) int64"""
    pool: np.ndarray
    """int32"""
    positions: np.ndarray
    """(n,) int64: where in `pool` the word starts"""


class WordTable:
    """The pieces of words by their bytes.

    It grows with the words up to `memory` bytes; the first word beyond begins it anew, so that it
    follows the text. The frequent words are back at once. What a word's pieces are does not depend
    on it.
    """

    def __init__(
        self, splits: np.ndarray, folds: bool, memory: int = WORD_MEMORY, spread: int = 0xFFFF_FFFF_FFFF_FFFF
    ) -> None:
        """`splits` and `folds` of `WordRules`; `spread` masks the hash (tests make words collide
        with it)."""
        self.splits = np.uint64(sum(1 << int(byte) for byte in np.flatnonzero(splits)))
        self.folds, self.spread = folds, np.uint64(spread)
        self._memory = memory
        self._changes = threading.Condition()
        self._readers = 0
        self._looked_up = self._hits = self._cleared = 0
        self._clear()

    def _clear(self) -> None:
        self._arrays = Snapshot(new_slots(_FEWEST_SLOTS), np.empty(0, np.uint8), np.empty(0, np.int32))
        self._used = np.zeros(3, np.int64)

    @property
    def statistics(self) -> WordStatistics:
        """See `WordStatistics`."""
        size = sum(part.nbytes for part in self._arrays)
        return WordStatistics(self._looked_up, self._hits, int(self._used[0]), size, self._cleared)

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """The arrays, which stay as they are inside the block. Any number of threads read at a
        time."""
        with self._changes:
            self._readers += 1
            arrays = self._arrays
        try:
            yield arrays
        finally:
            with self._changes:
                self._readers -= 1
                self._changes.notify_all()

    def count(self, looked_up: int, hits: int) -> None:
        """Add to the statistics."""
        with self._changes:
            self._looked_up += looked_up
            self._hits += hits

    def add(self, new: NewWords) -> None:
        """Keep new words, as far as there is room for them."""
        lengths, sizes = np.diff(new.starts), np.diff(new.positions, append=len(new.pool))
        kept = lengths <= kernels.LONGEST
        outside = kept & (lengths > kernels.INSIDE)
        needed = int(kept.sum()), int(lengths[outside].sum()), int(sizes[kept].sum())
        if not needed[0]:
            return
        with self._changes:
            self._changes.wait_for(lambda: self._readers == 0)
            if not self._reserve(*needed):
                self._cleared += int(self._used[0] > 0)
                self._clear()
                while needed[0] and not self._reserve(*needed):
                    needed = needed[0] // 2, needed[1] // 2, needed[2] // 2
            slots, keys, pool = self._arrays
            kernels.absorb(
                new.data, new.starts, len(new.positions), self.splits, self.folds, self.spread, new.pool,
                new.positions, slots, keys, pool, self._used,
            )  # fmt: skip

    def _reserve(self, words: int, key_bytes: int, pieces: int) -> bool:
        """Grow the arrays for so much more, if the memory allows."""
        slots, keys, pool = self._arrays
        words, key_bytes, pieces = (
            int(used) + more for used, more in zip(self._used, (words, key_bytes, pieces), strict=True)
        )
        count = len(slots)
        while 2 * count < 3 * words + 3:
            count *= 2
        for slack in (1.5, 1.0):
            sizes = [
                len(part) if size <= len(part) else int(size * slack)
                for part, size in ((keys, key_bytes), (pool, pieces))
            ]
            if _SLOT_BYTES * count + sizes[0] + pool.itemsize * sizes[1] <= self._memory:
                break
        else:
            return False
        if count != len(slots):
            wider = new_slots(count)
            kernels.rehash(slots, wider, self.spread)
            slots = wider
        self._arrays = Snapshot(slots, _longer(keys, sizes[0]), _longer(pool, sizes[1]))
        return True


def new_slots(count: int) -> np.ndarray:
    """So many free slots."""
    return np.zeros((count, 3), np.uint64)


def _longer(values: np.ndarray, size: int) -> np.ndarray:
    if size == len(values):
        return values
    longer = np.empty(size, values.dtype)
    longer[: len(values)] = values
    return longer
