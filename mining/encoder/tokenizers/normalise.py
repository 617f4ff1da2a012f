"""The form in which words and character n-grams see a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from mining.encoder.pieces import check_texts
from mining.unseen import without_unseen

BLOCK_CHARS = 1 << 18
"""Texts are worked on in blocks of about so many characters."""
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    block: list[str] = []
    size = 0
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {place} is {type(text).__name__}, not str")
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
