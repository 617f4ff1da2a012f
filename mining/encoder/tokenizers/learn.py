"""Vocabularies of words and character n-grams: the most frequent types of some sentences."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mining.encoder.tokenizers.ngrams import (
    FOREIGN,
    LETTER_BITS,
    LONGEST,
    NgramTokenizer,
    check_sizes,
    code_points,
    padded_blocks,
    window_codes,
)
from mining.encoder.tokenizers.normalise import normalised_blocks
from mining.encoder.tokenizers.words import WordTokenizer, word_cutter
from mining.errors import InputError

DEFAULT_TYPES = 200_000
COUNTED_TYPES = 3_000_000
"""When more types are being counted, the rarest are forgotten: memory does not grow with the
text."""
_BATCH = 8192
_CODE_POINTS = 0x110000


def learn_words(sentences: Iterable[str], size: int = DEFAULT_TYPES) -> WordTokenizer:
    """The `size` most frequent words; of equally frequent ones those that come first in the order
    of code points.

    Raises InputError when there is no word at all.
    """
    cut = word_cutter()
    counts: Counter[str] = Counter()
    floor = 0
    for batch in _batches(sentences):
        for block in normalised_blocks(batch):
            counts.update(itertools.chain.from_iterable(map(cut, block)))
        while len(counts) > COUNTED_TYPES:
            floor += 1
            counts = Counter({word: count for word, count in counts.items() if count > floor})
    if not counts:
        raise InputError("no words can be learnt: there is no text; give sentences")
    return WordTokenizer(_most_frequent(counts.items(), size))


def learn_ngrams(sentences: Iterable[str], sizes: Sequence[int], size: int = DEFAULT_TYPES) -> NgramTokenizer:
    """The `size` most frequent character n-grams of the given `sizes`; ties as in `learn_words`.

    Characters beyond the first 65,534 distinct ones are passed over. Raises InputError when there
    is no n-gram at all.
    """
    alphabet = _Alphabet()
    counts = _CodeCounts(COUNTED_TYPES)
    sizes = check_sizes(sizes)
    for batch in _batches(sentences):
        for block in padded_blocks(batch):
            letters = alphabet.letters(code_points("\n".join(block) + "\n"))
            for width, codes in zip(sizes, window_codes(letters, sizes), strict=True):
                outside = np.concatenate(([0], np.cumsum(letters == FOREIGN)))
                counts.add(codes[outside[width:] == outside[:-width]])
    codes, numbers = counts.total()
    if not len(codes):
        raise InputError("no character n-grams can be learnt: there is no text; give sentences")
    if len(codes) > size:
        often = numbers >= np.partition(numbers, len(numbers) - size)[len(numbers) - size]
        codes, numbers = codes[often], numbers[often]
    return NgramTokenizer(_most_frequent(zip(alphabet.spell(codes), numbers.tolist(), strict=True), size), sizes)


def _batches(sentences: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(sentences)
    while batch := list(itertools.islice(iterator, _BATCH)):
        yield batch


def _most_frequent(counts: Iterable[tuple[str, int]], size: int) -> list[str]:
    return [name for name, _ in sorted(counts, key=lambda item: (-item[1], item[0]))[:size]]


class _Alphabet:
    """Numbers characters from 1 in the order in which they turn up; the line feed between texts is
    foreign."""

    def __init__(self) -> None:
        self._letters = np.zeros(_CODE_POINTS, np.uint16)
        self._letters[ord("\n")] = FOREIGN
        self._characters = [0]

    def letters(self, characters: np.ndarray) -> np.ndarray:
        """(n,) uint16 of (n,) uint32 code points."""
        letters = self._letters[characters]
        if not letters.all():
            fresh, first = np.unique(characters[letters == 0], return_index=True)
            for character in fresh[np.argsort(first)].tolist():
                if len(self._characters) == FOREIGN:
                    self._letters[character] = FOREIGN
                    continue
                self._letters[character] = len(self._characters)
                self._characters.append(character)
            letters = self._letters[characters]
        return letters

    def spell(self, codes: np.ndarray) -> Iterator[str]:
        """The n-grams of codes."""
        shifts = np.arange(LONGEST - 1, -1, -1, dtype=np.uint64) * np.uint64(LETTER_BITS)
        letters = (codes[:, None] >> shifts) & np.uint64(FOREIGN)
        characters = np.array(self._characters, np.uint32)[letters.astype(np.int64)]
        for row in characters.tolist():
            yield "".join(map(chr, filter(None, row)))


class _CodeCounts:
    """Counts codes in sorted arrays; new ones gather until they are as many as what is counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._codes, self._numbers = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting_types = self._floor = 0

    def add(self, codes: np.ndarray) -> None:
        """Count each of `codes` once more."""
        distinct, numbers = np.unique(codes, return_counts=True)
        self._waiting.append((distinct, numbers))
        self._waiting_types += len(distinct)
        if self._waiting_types > max(len(self._codes), _BATCH):
            self._merge()

    def _merge(self) -> None:
        parts = [(self._codes, self._numbers), *self._waiting]
        self._waiting, self._waiting_types = [], 0
        codes, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
        # Whole numbers below 2**53: the sums in float64 are exact.
        numbers = np.bincount(places, np.concatenate([part[1] for part in parts]), len(codes)).astype(np.int64)
        while len(codes) > self._limit:
            self._floor += 1
            often = numbers > self._floor
            codes, numbers = codes[often], numbers[often]
        self._codes, self._numbers = codes, numbers

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct codes, ascending, and how often each was counted."""
        self._merge()
        return self._codes, self._numbers
