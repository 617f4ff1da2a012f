"""Texts to pieces word by word: words seen before are looked up, the others segmented once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mining.compiled import in_ranges
from mining.devices import resolve_threads
from mining.encoder.tokenizers.pieces import PieceTokenizer
from mining.encoder.tokens import Tokens
from mining.encoder.word_cache import table_kernels as kernels
from mining.encoder.word_cache.rules import WordRules, word_rules
from mining.encoder.word_cache.segment import segmenter
from mining.encoder.word_cache.table import WORD_MEMORY, NewWords, WordStatistics, WordTable, new_slots
from mining.encoder.word_cache.texts import Utf8

_LEAST = 64
"""Texts that are worth a thread."""
_NOBODY = np.zeros(0, np.int32)


class _Part(NamedTuple):
    """The words of consecutive texts of a block."""

    first: int
    """text of the block"""
    found: np.ndarray
    """(words,) int64: position in the table's pool, or ``-1 - position`` in that of the new
    words"""
    ends: np.ndarray
    """(texts,) int64: words up to and with each text"""
    missed: np.ndarray
    """(misses, 3) int64: word, start and end in the text"""


class WordPieces:
    """Finds the pieces of texts by their words.

    The pieces are those of `PieceTokenizer` for each word by itself, and so is the rule for unknown
    pieces, which looks at the whole text. The words of one text share no piece, so this is what the
    tokenizer finds in the text, but for the rare word of which two segmentations are equally
    probable up to rounding: sentencepiece adds the logarithms of a text in float32 from its start,
    and decides such a word by what stands before it. Here it always has the same pieces. Several
    threads may call at a time.
    """

    def __init__(self, tokenizer: PieceTokenizer, rules: WordRules, memory: int = WORD_MEMORY) -> None:
        """`rules` of the tokenizer's model; `memory`: bytes that the table of words may take."""
        self._unknown, self._boundary = tokenizer.unknown, tokenizer.boundary
        self._segment = segmenter(tokenizer, rules)
        self.table = WordTable(rules.splits, rules.folds, memory)

    @property
    def statistics(self) -> WordStatistics:
        """How often the table helped, and what it takes."""
        return self.table.statistics

    def __call__(self, texts: Utf8, threads: int = 0) -> Tokens:
        """Tokens of all `texts`."""
        found: dict[int, Tokens] = {}
        self.each(texts, threads, found.__setitem__)
        parts = [found[first] for first in sorted(found)]
        bases = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[1:] + base for part, base in zip(parts, bases[:-1], strict=True)]
        return Tokens(np.concatenate([part.ids for part in parts]), np.concatenate([bases[:1], *offsets]))

    def each(self, texts: Utf8, threads: int, use: Callable[[int, Tokens], None]) -> None:
        """Find the pieces of a block of texts, and call ``use(first, pieces)`` for runs of
        consecutive texts.

        `first` is the number of the first text of the run. The calls come from several threads at a
        time.
        """
        count = len(texts.offsets) - 1
        workers = max(1, min(resolve_threads(threads), count // _LEAST))
        limits = [count * part // workers for part in range(workers + 1)]
        parts: list[_Part] = [_Part(0, _NOBODY, _NOBODY, _NOBODY)] * workers

        def scan(start: int, stop: int) -> None:
            for part in range(start, stop):
                parts[part] = self._scan(texts, limits[part], limits[part + 1], slots, keys)

        def flatten(start: int, stop: int) -> None:
            for part in parts[start:stop]:
                use(part.first, self._flatten(part, pool, new.pool))

        with self.table.reading() as (slots, keys, pool):
            in_ranges(scan, workers, workers)
        words, misses = sum(len(part.found) for part in parts), sum(len(part.missed) for part in parts)
        self.table.count(words, words - misses)
        new = self._new_words(texts, parts, misses, threads) if misses else _NO_WORDS
        in_ranges(flatten, workers, workers)
        if misses:
            self.table.add(new)

    def _scan(self, texts: Utf8, first: int, last: int, slots: np.ndarray, keys: np.ndarray) -> _Part:
        table, size = self.table, int(texts.offsets[last] - texts.offsets[first])
        # A word takes a byte, and another to part it from the next one in its text.
        most = (size + last - first) // 2 + 1
        found, ends, missed = np.empty(most, np.int64), np.empty(last - first, np.int64), np.empty((most, 3), np.int64)
        words, misses = kernels.scan(
            texts.data, texts.offsets, first, last, table.splits, table.folds, table.spread, slots, keys, found, ends,
            missed,
        )  # fmt: skip
        return _Part(first, found[:words], ends, missed[:misses])

    def _new_words(self, texts: Utf8, parts: list[_Part], misses: int, threads: int) -> NewWords:
        """Segment the distinct words that were missed, and put them in their places."""
        table, known = self.table, 0
        slots = new_slots(1 << (2 * misses).bit_length())
        size = sum(int((part.missed[:, 2] - part.missed[:, 1]).sum()) for part in parts)
        data, starts = np.empty(size, np.uint8), np.zeros(misses + 1, np.int64)
        numbers = [np.empty(len(part.missed), np.int64) for part in parts]
        for part, number in zip(parts, numbers, strict=True):
            known = kernels.gather(
                texts.data, part.missed, len(part.missed), table.splits, table.folds, table.spread, slots, data, starts,
                known, number,
            )  # fmt: skip
        starts = starts[: known + 1]
        pieces = self._segment(data, starts, threads)
        pool, positions = np.empty(len(pieces.ids) + known, np.int32), np.empty(known, np.int64)
        size = kernels.pack(pieces.ids, pieces.offsets, self._unknown, self._boundary, pool, positions)
        for part, number in zip(parts, numbers, strict=True):
            kernels.resolve(part.missed, len(part.missed), number, positions, part.found)
        return NewWords(data, starts, pool[:size], positions)

    def _flatten(self, part: _Part, pool: np.ndarray, own: np.ndarray) -> Tokens:
        texts = len(part.ends)
        most = kernels.tally(part.found, len(part.found), pool, own) + texts
        ids, offsets = np.empty(most, np.int32), np.empty(texts + 1, np.int64)
        total = kernels.flatten(part.found, part.ends, texts, pool, own, self._unknown, ids, offsets)
        return Tokens(ids[:total], offsets)


_NO_WORDS = NewWords(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))


def word_pieces(tokenizer: PieceTokenizer, memory: int = WORD_MEMORY) -> WordPieces | str:
    """`WordPieces` of a tokenizer, or the reason why its model cannot be applied word by word."""
    rules = word_rules(tokenizer.applied)
    return rules if isinstance(rules, str) else WordPieces(tokenizer, rules, memory)
