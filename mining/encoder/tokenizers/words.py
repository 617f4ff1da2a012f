"""Words, by one rule for all languages."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

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
from mining.encoder.tokens import Tokens
from mining.errors import InputError
from mining.shown import quoted

WORDS_FILE = "words.txt"
_SINGLE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"
)
"""Han and Kana, as ranges of a character class: written without spaces, each stands for itself."""
_END = -1


class WordSettings(TypeSettings):
    """How a vocabulary of words is learnt."""

    def learn(self, sentences: Iterable[str]) -> WordTokenizer:
        """The `types` most frequent words; of equally frequent ones those that come first in the
        order of code points.

        Raises InputError when there is no word at all.
        """
        cut = word_cutter()
        counts: Counter[str] = Counter()
        floor = 0
        for batch in batches(sentences):
            for block in normalised_blocks(batch):
                counts.update(itertools.chain.from_iterable(map(cut, block)))
            while len(counts) > _types.COUNTED_TYPES:
                floor += 1
                counts = Counter({word: count for word, count in counts.items() if count > floor})
        if not counts:
            raise InputError("no words can be learnt: there is no text; give sentences")
        return WordTokenizer(most_frequent(counts.items(), self.types))


@TOKENIZERS.register("words")
class WordTokenizer(Tokenizer):
    """Words of a text in normal form (NFKC, case folded).

    A word is a run of letters, digits and combining marks; each other character that is no white
    space is a word by itself, and so is each Han or Kana character. WORD of Wieting et al. 2019,
    section 2, had words of a tokeniser for each language; this rule needs no language.
    """

    kind = "words"
    unknown = UNKNOWN
    learning = WordSettings
    cut_in_training = True

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

    @classmethod
    def load(cls, files: Mapping[str, bytes], settings: Mapping[str, object]) -> WordTokenizer:
        """See `Tokenizer.load`."""
        return cls(read_type_lines(needed_file(files, WORDS_FILE), WORDS_FILE))

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
        return Tokens(np.concatenate(ids), offsets).known(UNKNOWN)

    def files(self) -> dict[str, bytes]:
        """``words.txt``: one word a line."""
        return {WORDS_FILE: type_lines(self.types)}


@functools.cache
def word_cutter() -> Callable[[str], list[str]]:
    """The function from a text in normal form to its words; a line feed is a word too."""
    letters = rf"[^\W_{_SINGLE}]"
    return re.compile(rf"{letters}+(?:[{_marks()}]+{letters}*)*|\n|\S").findall


def _marks() -> str:
    """The combining marks as ranges of a character class."""
    points = [
        point for point in (*range(0x20000), *range(0xE0100, 0xE01F0)) if unicodedata.category(chr(point))[0] == "M"
    ]
    ranges = []
    for _, run in itertools.groupby(enumerate(points), lambda pair: pair[1] - pair[0]):
        members = [point for _, point in run]
        ranges.append(f"{chr(members[0])}-{chr(members[-1])}")
    return "".join(ranges)
