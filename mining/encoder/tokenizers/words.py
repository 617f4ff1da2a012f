"""Words, by one rule for all languages."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mining.encoder.pieces import Tokens
from mining.encoder.tokenizers.base import UNKNOWN, leave_out_unknown, read_type_lines, type_lines
from mining.encoder.tokenizers.normalise import normalised_blocks
from mining.io.files import quoted

WORDS_FILE = "words.txt"
_SINGLE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"
)
"""Han and Kana, as ranges of a character class: written without spaces, each stands for itself."""
_END = -1


class WordTokenizer:
    """Words of a text in normal form (NFKC, case folded).

    A word is a run of letters, digits and combining marks; each other character that is no white
    space is a word by itself, and so is each Han or Kana character. WORD of Wieting et al. 2019,
    section 2, had words of a tokeniser for each language; this rule needs no language.
    """

    kind = "words"
    unknown = UNKNOWN

    def __init__(self, types: Sequence[str]) -> None:
        """`types`: distinct words; their ids are 1, 2, ... Raises ValueError for one that is no
        single word."""
        self.types = list(types)
        words = word_cutter()("\n".join(self.types))
        if words[::2] != self.types or any(end != "\n" for end in words[1::2]):
            wrong = next(word for word in self.types if word == "\n" or word_cutter()(word) != [word])
            raise ValueError(f"{WORDS_FILE}: {quoted(wrong)} is not one word")
        self.size = len(self.types) + 1
        self._ids = dict(zip(self.types, itertools.count(1), strict=False))
        self._ids["\n"] = _END

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Ids of `texts`, on one thread; see `Tokenizer`."""
        cut, known = word_cutter(), self._ids.get
        ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for block in normalised_blocks(texts):
            words = cut("\n".join(block) + "\n")
            flat = np.fromiter(map(known, words, itertools.repeat(UNKNOWN)), np.int32, len(words))
            ends = flat == _END
            ids.append(flat[~ends])
            lengths.append(np.diff(np.flatnonzero(ends), prepend=-1) - 1)
        offsets = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        return leave_out_unknown(Tokens(np.concatenate(ids), offsets))

    def files(self) -> dict[str, bytes]:
        """``words.txt``: one word a line."""
        return {WORDS_FILE: type_lines(self.types)}

    def settings(self) -> dict[str, Any]:
        """Nothing: the words say all."""
        return {}

    @classmethod
    def load(cls, data: bytes) -> WordTokenizer:
        """The unit of a file that `files` made; raises ValueError when it is not one."""
        return cls(read_type_lines(data, WORDS_FILE))


@functools.cache
def word_cutter() -> Callable[[str], list[str]]:
    """The function from a text in normal form to its words; a line feed is a word too."""
    letters = rf"[^\W_{_SINGLE}]"
    return re.compile(rf"{letters}+(?:[{_marks()}]+{letters}*)*|\n|\S").findall


def _marks() -> str:
    """The combining marks as ranges of a character class."""
    places = [
        place for place in (*range(0x20000), *range(0xE0100, 0xE01F0)) if unicodedata.category(chr(place))[0] == "M"
    ]
    ranges = []
    for _, run in itertools.groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        members = [place for _, place in run]
        ranges.append(f"{chr(members[0])}-{chr(members[-1])}")
    return "".join(ranges)
