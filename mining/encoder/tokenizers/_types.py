"""What the tokenizers of words and of character n-grams share: the normal form of a text, the file
of a vocabulary, and its most frequent types."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from mining.config.base import Flag
from mining.encoder.tokenizers import LearningSettings
from mining.encoder.tokens import check_each, check_texts
from mining.unseen import without_unseen

UNKNOWN = 0
"""The id of the unknown token; the types follow it in the order of their file."""
BLOCK_CHARS = 1 << 18
"""Texts are worked on in blocks of about so many characters."""
COUNTED_TYPES = 3_000_000
"""When more types are being counted, the rarest are forgotten: memory does not grow with the
text."""
BATCH = 8192
"""Sentences counted at a time."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class TypeSettings(LearningSettings):
    """How a vocabulary of the most frequent words or n-grams is learnt."""

    types: Annotated[int, Flag(panel="Tokens")] = Field(default=200_000, ge=1)
    """Most words, character trigrams or n-grams of a vocabulary."""


def normalised(text: str) -> str:
    """NFKC without what is unseen, case folded, NFKC again; lone surrogates as ``?``.

    A line feed stays one, and none is added.
    """
    if text.isascii():
        return text.lower()
    # Forms of letters with a vowel sign come apart in the first step, so the signs are left out
    # after it.
    text = without_unseen("", unicodedata.normalize("NFKC", _SURROGATE.sub("?", text))).casefold()
    return unicodedata.normalize("NFKC", text)


def normalised_blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in normal form and without line feeds, in order, block by block.

    Raises TypeError for a plain ``str`` and for an element that is no ``str``.
    """
    check_texts(texts)
    check_each(texts)
    block: list[str] = []
    size = 0
    for text in texts:
        if block and size + len(text) > BLOCK_CHARS:
            yield _normalised_block(block)
            block, size = [], 0
        block.append(text.replace("\n", " "))
        size += len(text) + 1
    if block:
        yield _normalised_block(block)


def _normalised_block(texts: list[str]) -> list[str]:
    # A line feed takes part in no composition, so the whole block can be normalised in one call.
    return normalised("\n".join(texts)).split("\n")


def type_lines(types: Sequence[str]) -> bytes:
    """The file of a vocabulary: UTF-8, one type a line; no type holds a line feed."""
    return "".join(f"{name}\n" for name in types).encode("utf-8")


def read_type_lines(data: bytes, name: str) -> list[str]:
    """The types of a vocabulary file; raises ValueError with the reason when it is cut short or no
    such file."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: truncated or not UTF-8 ({error})") from None
    if not text.endswith("\n"):
        raise ValueError(f"{name}: truncated, or without any type")
    types = text[:-1].split("\n")
    if len(set(types)) != len(types):
        raise ValueError(f"{name}: a type stands in it twice")
    return types


def batches(sentences: Iterable[str]) -> Iterator[list[str]]:
    """The sentences in lists of `BATCH`."""
    iterator = iter(sentences)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch


def most_frequent(counts: Iterable[tuple[str, int]], size: int) -> list[str]:
    """The `size` names of the largest counts; of equal ones those that come first in the order of
    code points."""
    return [name for name, _ in sorted(counts, key=lambda item: (-item[1], item[0]))[:size]]
