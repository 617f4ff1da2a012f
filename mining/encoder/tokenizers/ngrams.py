"""Character n-grams of a text, cut and looked up block by block in numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from mining.encoder.tokenizers import TOKENIZERS, Tokenizer, _types, needed_file
from mining.encoder.tokenizers._types import (
    UNKNOWN,
    TypeSettings,
    batches,
    most_frequent,
    normalised_blocks,
    read_type_lines,
    type_lines,
)
from mining.encoder.tokens import WORD_BOUNDARY, Tokens
from mining.errors import InputError
from mining.shown import quoted

LONGEST = 4
LETTER_BITS = 16
"""A code is four letters of so many bits: of a shorter n-gram the leading ones are 0."""
FOREIGN = (1 << LETTER_BITS) - 1
"""The letter of every character that no type has."""
_CODE_POINTS = 0x110000
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPARSE = 4
"""Slots of a table of codes for each entry, at least."""


class NgramSettings(TypeSettings):
    """How a vocabulary of n-grams is learnt."""

    @property
    def tokenizer(self) -> type[NgramTokenizer]:
        """What is learnt."""
        return NgramTokenizer

    def learn(self, sentences: Iterable[str]) -> NgramTokenizer:
        """The `types` most frequent n-grams of the usual lengths; of equally frequent ones those
        that come first in the order of code points.

        Characters beyond the first 65,534 distinct ones are passed over. Raises InputError when
        there is no n-gram at all.
        """
        return self.tokenizer(frequent_ngrams(sentences, self.tokenizer.usual, self.types))


@TOKENIZERS.register("ngrams")
class NgramTokenizer(Tokenizer):
    """Character n-grams of a text in normal form (NFKC, case folded), white space as one space, one
    space at each end.

    The inventory of CHARAGRAM, Wieting et al. 2016 (sizes 2, 3 and 4). The ids of a text come in
    the order in which they start, the shorter first. A ``U+2581`` in a text is a space, since that
    is how a space is written in the file.
    """

    kind = "ngrams"
    usual: ClassVar[tuple[int, ...]] = (2, 3, 4)
    """lengths of the n-grams"""
    allowed: ClassVar[tuple[int, ...] | None] = None
    """the only lengths that this kind may have"""
    unknown = UNKNOWN
    learning = NgramSettings

    def __init__(self, types: Sequence[str], sizes: Sequence[int] | None = None) -> None:
        """`types`: distinct n-grams, their ids are 1, 2, ...; `sizes`: the lengths that texts are
        cut into, `usual` without any.

        Raises ValueError for an n-gram of another length, or for more distinct characters than
        65,534.
        """
        self.sizes = _checked_sizes(self.usual if sizes is None else sizes)
        if self.allowed not in (None, self.sizes):
            raise ValueError(f"{self.kind} of {_listed(self.sizes)} characters")
        self.types = list(types)
        self.size = len(self.types) + 1
        lengths = np.fromiter(map(len, self.types), np.int64, len(self.types))
        if not np.isin(lengths, self.sizes).all():
            wrong = self.types[int(np.flatnonzero(~np.isin(lengths, self.sizes))[0])]
            raise ValueError(f"{self.kind}.txt: {quoted(wrong)} has {len(wrong)} characters, not {_listed(self.sizes)}")
        characters = code_points("".join(self.types))
        distinct = np.unique(characters)
        if len(distinct) >= FOREIGN:
            raise ValueError(f"{self.kind}.txt: {len(distinct)} distinct characters, more than {FOREIGN - 1}")
        self._letters = np.full(_CODE_POINTS, FOREIGN, np.uint16)
        self._letters[distinct] = np.arange(1, len(distinct) + 1)
        self._table = CodeTable(self._codes(characters, lengths))

    def _codes(self, characters: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        starts = np.cumsum(lengths) - lengths
        letters = np.append(self._letters[characters].astype(np.uint64), np.zeros(LONGEST, np.uint64))
        codes = np.zeros(len(lengths), np.uint64)
        for step in range(LONGEST):
            inside = step < lengths
            codes[inside] = (codes[inside] << np.uint64(LETTER_BITS)) | letters[starts[inside] + step]
        return codes

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Ids of `texts`, on one thread; see `Tokenizer`."""
        ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for block in padded_blocks(texts):
            found, counts = self._block(block)
            ids.append(found)
            lengths.append(counts)
        return Tokens(np.concatenate(ids), np.concatenate(([0], np.cumsum(np.concatenate(lengths)))))

    def _block(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of a block of padded texts and how many each text has."""
        letters = self._letters[code_points("\n".join(texts) + "\n")]
        grid = np.zeros((len(letters), len(self.sizes)), np.int32)
        for column, codes in enumerate(window_codes(letters, self.sizes)):
            grid[: len(codes), column] = self._table.find(codes)
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
        starts = np.concatenate(([0], ends[:-1]))
        keep = grid != UNKNOWN
        before = np.concatenate(([0], np.cumsum(keep.sum(1))))
        counts = before[ends] - before[starts]
        nothing_known = (counts == 0) & (ends - starts > 1)
        keep[starts[nothing_known], 0] = True
        return grid[keep], counts + nothing_known

    def files(self) -> dict[str, bytes]:
        """``trigrams.txt`` or ``ngrams.txt``: one n-gram a line, a space written as ``U+2581``."""
        return {f"{self.kind}.txt": type_lines([name.replace(" ", WORD_BOUNDARY) for name in self.types])}

    def settings(self) -> dict[str, object]:
        """The sizes of the n-grams."""
        return {"sizes": list(self.sizes)}

    @classmethod
    def load(cls, files: Mapping[str, bytes], settings: Mapping[str, object]) -> NgramTokenizer:
        """See `Tokenizer.load`."""
        name = f"{cls.kind}.txt"
        types = [gram.replace(WORD_BOUNDARY, " ") for gram in read_type_lines(needed_file(files, name), name)]
        return cls(types, _checked_sizes(settings.get("sizes", cls.usual)))


def _checked_sizes(sizes: object) -> tuple[int, ...]:
    """Ascending distinct sizes; raises ValueError for one that is not 1 to 4."""
    given = sizes if isinstance(sizes, (list, tuple)) else ()
    if not given or not all(type(size) is int and 1 <= size <= LONGEST for size in given):
        raise ValueError(f"n-grams of {quoted(sizes)} characters: sizes are 1 to {LONGEST}")
    return tuple(sorted(set(given)))


def _listed(sizes: Sequence[int]) -> str:
    return " or ".join(map(str, sizes))


def code_points(text: str) -> np.ndarray:
    """(len(text),) uint32"""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def padded_blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts as n-grams see them, block by block; one without content is empty."""
    for block in normalised_blocks(texts):
        cleaned = (" ".join(text.replace(WORD_BOUNDARY, " ").split()) for text in block)
        yield [f" {text} " if text else "" for text in cleaned]


def window_codes(letters: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """For each of the ascending `sizes` the codes (uint64) of all windows of `letters` (n,) that
    long."""
    wide = letters.astype(np.uint64)
    codes, window = [], wide
    for size in range(1, max(sizes) + 1):
        if size > 1:
            window = (window[:-1] << np.uint64(LETTER_BITS)) | wide[size - 1 :]
        if size in sizes:
            codes.append(window)
    return codes


class CodeTable:
    """Finds the positions of 64-bit codes in a list of distinct codes, none of them 0: open
    addressing, linear probing."""

    def __init__(self, codes: np.ndarray) -> None:
        """`codes` (n,) uint64; code ``i`` has id ``i + 1``."""
        bits = max(4, int(len(codes) * _SPARSE - 1).bit_length())
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._keys = np.zeros(1 << bits, np.uint64)
        self._ids = np.zeros(1 << bits, np.int32)
        self._insert(codes, np.arange(1, len(codes) + 1, dtype=np.int32))

    def _slots(self, codes: np.ndarray) -> np.ndarray:
        return ((codes * _MIX) >> self._shift).astype(np.int64)

    def _insert(self, codes: np.ndarray, ids: np.ndarray) -> None:
        slots = self._slots(codes)
        while len(codes):
            free = np.flatnonzero(self._keys[slots] == 0)
            _, first = np.unique(slots[free], return_index=True)
            stored = free[first]
            self._keys[slots[stored]] = codes[stored]
            self._ids[slots[stored]] = ids[stored]
            left = np.ones(len(codes), bool)
            left[stored] = False
            codes, ids, slots = codes[left], ids[left], (slots[left] + 1) & self._mask

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Ids of `codes` (n,) uint64, int32; 0 for a code that is not in the list."""
        slots = self._slots(codes)
        keys = self._keys[slots]
        found = np.where(keys == codes, self._ids[slots], np.int32(0))
        open_ = np.flatnonzero((keys != codes) & (keys != 0))
        while len(open_):
            slots_left = slots[open_] = (slots[open_] + 1) & self._mask
            wanted, keys = codes[open_], self._keys[slots_left]
            hit = keys == wanted
            found[open_[hit]] = self._ids[slots_left[hit]]
            open_ = open_[~hit & (keys != 0)]
        return found


def frequent_ngrams(sentences: Iterable[str], sizes: Sequence[int], size: int) -> list[str]:
    """The `size` most frequent n-grams of the ascending lengths `sizes`; see
    `NgramSettings.learn`."""
    alphabet = _Alphabet()
    counts = _CodeCounts(_types.COUNTED_TYPES)
    for batch in batches(sentences):
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
    return most_frequent(zip(alphabet.spell(codes), numbers.tolist(), strict=True), size)


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
        if self._waiting_types > max(len(self._codes), _types.BATCH):
            self._merge()

    def _merge(self) -> None:
        parts = [(self._codes, self._numbers), *self._waiting]
        self._waiting, self._waiting_types = [], 0
        codes, ranks = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
        # Whole numbers below 2**53: the sums in float64 are exact.
        numbers = np.bincount(ranks, np.concatenate([part[1] for part in parts]), len(codes)).astype(np.int64)
        while len(codes) > self._limit:
            self._floor += 1
            often = numbers > self._floor
            codes, numbers = codes[often], numbers[often]
        self._codes, self._numbers = codes, numbers

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct codes, ascending, and how often each was counted."""
        self._merge()
        return self._codes, self._numbers
