"""Character n-grams of a text, cut and looked up block by block in numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mining.encoder.pieces import WORD_BOUNDARY, Tokens
from mining.encoder.tokenizers.base import UNKNOWN, read_type_lines, type_lines
from mining.encoder.tokenizers.code_table import CodeTable
from mining.encoder.tokenizers.normalise import normalised_blocks
from mining.io.files import quoted

TRIGRAMS, NGRAMS = "trigrams", "ngrams"
SIZES = {TRIGRAMS: (3,), NGRAMS: (2, 3, 4)}
LONGEST = 4
LETTER_BITS = 16
"""A code is four letters of so many bits: of a shorter n-gram the leading ones are 0."""
FOREIGN = (1 << LETTER_BITS) - 1
"""The letter of every character that no type has."""
_CODE_POINTS = 0x110000


class NgramTokenizer:
    """Character n-grams of a text in normal form (NFKC, case folded), white space as one space, one
    space at each end.

    TRIGRAM of Wieting et al. 2019, section 2 (sizes 3), and the inventory of CHARAGRAM, Wieting et
    al. 2016 (sizes 2, 3 and 4). The ids of a text come in the order of their places, the shorter
    first. A ``U+2581`` in a text is a space, since that is how a space is written in the file.
    """

    unknown = UNKNOWN

    def __init__(self, types: Sequence[str], sizes: Sequence[int]) -> None:
        """`types`: distinct n-grams, their ids are 1, 2, ...; `sizes`: the lengths that texts are
        cut into.

        Raises ValueError for an n-gram of another length, or for more distinct characters than
        65,534.
        """
        self.sizes = check_sizes(sizes)
        self.kind = TRIGRAMS if self.sizes == SIZES[TRIGRAMS] else NGRAMS
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
        for place in range(LONGEST):
            inside = place < lengths
            codes[inside] = (codes[inside] << np.uint64(LETTER_BITS)) | letters[starts[inside] + place]
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

    def settings(self) -> dict[str, Any]:
        """The sizes of the n-grams."""
        return {"sizes": list(self.sizes)}

    @classmethod
    def load(cls, data: bytes, kind: str, sizes: Sequence[int]) -> NgramTokenizer:
        """The unit of a file that `files` made; raises ValueError when it is not one."""
        types = [name.replace(WORD_BOUNDARY, " ") for name in read_type_lines(data, f"{kind}.txt")]
        unit = cls(types, sizes)
        if unit.kind != kind:
            raise ValueError(f"{kind} of {_listed(unit.sizes)} characters")
        return unit


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Ascending distinct sizes; raises ValueError for one that is not 1 to 4."""
    whole = isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes)
    if not whole or not sizes or not 1 <= min(sizes) <= max(sizes) <= LONGEST:
        raise ValueError(f"n-grams of {quoted(sizes)} characters: sizes are 1 to {LONGEST}")
    return tuple(sorted(set(sizes)))


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
