"""Texts to pieces word by word: words seen before are looked up, the others segmented once.

The table of words is bounded in memory and shared by the threads of a process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from mining.config.encode import WORD_MEMORY as WORD_MIB
from mining.encoder.tokenizers.pieces import PieceTokenizer
from mining.encoder.tokens import Tokens
from mining.encoder.word_cache import kernels
from mining.encoder.word_cache.proof import WordRules, word_rules
from mining.encoder.word_cache.segment import pack, segmenter
from mining.text_arrays import Utf8

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
    """(power of two, 3) uint64, see `kernels`"""
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
                new.data, new.starts, self.splits, self.folds, self.spread, new.pool,
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


_NO_WORDS = NewWords(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))


class CachedPieces:
    """Finds the pieces of texts by their words.

    The pieces are those of `PieceTokenizer` for each word by itself, and so is the rule for unknown
    pieces, which looks at the whole text. The words of one text share no piece, so this is what the
    tokenizer finds in the text, but for the rare word of which two segmentations are equally
    probable up to rounding: sentencepiece adds the logarithms of a text in float32 from its start,
    and decides such a word by what stands before it. Here it always has the same pieces. Several
    threads may call at a time, each with texts of its own.
    """

    def __init__(self, tokenizer: PieceTokenizer, rules: WordRules, memory: int = WORD_MEMORY) -> None:
        """`rules` of the tokenizer's model; `memory`: bytes that the table of words may take."""
        self._unknown, self._boundary = tokenizer.unknown, tokenizer.boundary
        self._segment = segmenter(tokenizer, rules)
        self.table = WordTable(rules.splits, rules.folds, memory)

    @classmethod
    def of(cls, tokenizer: PieceTokenizer, memory: int = WORD_MEMORY) -> CachedPieces | str:
        """The cache of a tokenizer, or the reason why its model cannot be applied word by word."""
        rules = word_rules(tokenizer.applied)
        return rules if isinstance(rules, str) else cls(tokenizer, rules, memory)

    @property
    def statistics(self) -> WordStatistics:
        """How often the table helped, and what it takes."""
        return self.table.statistics

    def __call__(self, texts: Utf8) -> Tokens:
        """Pieces of `texts`: their words are looked up, the missed ones segmented and kept."""
        with self.table.reading() as (slots, keys, pool):
            found, ends, missed = self._look_up(texts, slots, keys)
        self.table.count(len(found), len(found) - len(missed))
        new = self._new_words(texts.data, missed, found) if len(missed) else _NO_WORDS
        most = kernels.tally(found, pool, new.pool, new.positions) + len(ends)
        ids, offsets = np.empty(most, np.int32), np.empty(len(ends) + 1, np.int64)
        total = kernels.flatten(found, ends, pool, new.pool, new.positions, self._unknown, ids, offsets)
        if len(missed):
            self.table.add(new)
        return Tokens(ids[:total], offsets)

    def _look_up(self, texts: Utf8, slots: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each word its position in the pool (int64), of each text where its words end, and the
        missed words; see `kernels.scan`."""
        table, count = self.table, len(texts.offsets) - 1
        # A word takes a byte, and another to part it from the next one in its text.
        most = (int(texts.offsets[-1] - texts.offsets[0]) + count) // 2 + 1
        found, ends, missed = np.empty(most, np.int64), np.empty(count, np.int64), np.empty((most, 3), np.int64)
        words, misses = kernels.scan(
            texts.data, texts.offsets, table.splits, table.folds, table.spread, slots, keys, found, ends, missed
        )
        return found[:words], ends, missed[:misses]

    def _new_words(self, data: np.ndarray, missed: np.ndarray, found: np.ndarray) -> NewWords:
        """Segment the distinct words that were missed, and write their numbers to `found`."""
        table = self.table
        slots = new_slots(1 << (2 * len(missed)).bit_length())
        words = np.empty(int((missed[:, 2] - missed[:, 1]).sum()), np.uint8)
        starts = np.zeros(len(missed) + 1, np.int64)
        known = kernels.gather(data, missed, table.splits, table.folds, table.spread, slots, words, starts, found)
        starts = starts[: known + 1]
        ids, offsets = self._segment(words, starts)
        pool, positions = np.empty(len(ids) + known, np.int32), np.empty(known, np.int64)
        size = pack(ids, offsets, self._unknown, self._boundary, pool, positions)
        return NewWords(words, starts, pool[:size], positions)
