"""What units are to encoders and to training: the way from a text to rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mining.encoder.pieces import Tokens

UNKNOWN = 0
"""The id of the unknown unit among words and n-grams; their types follow it in the order of their
file."""


@runtime_checkable
class Tokenizer(Protocol):
    """Cuts texts into numbered units.

    One rule for all kinds: unknown units are left out, a text of unknown units only is one
    `unknown`, and a text without content has no ids.
    """

    kind: str
    """pieces, words, trigrams, ngrams or released"""
    size: int
    """rows of the table: every type and the unknown unit"""
    unknown: int
    """id of the unknown unit"""

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Ids of `texts`. Raises TypeError for a plain ``str`` or an element that is no ``str``.

        Lone surrogates are read as ``?``. ``threads`` 0: all cores, where the kind can use them.
        """
        ...

    def files(self) -> dict[str, bytes]:
        """The files that hold the vocabulary, by name."""
        ...

    def settings(self) -> dict[str, Any]:
        """What `load_tokenizer` needs beside the files, as plain data."""
        ...


def leave_out_unknown(units: Tokens, unknown: int = UNKNOWN) -> Tokens:
    """`units` without the unknown; of a text in which nothing else is, one unknown stays."""
    keep = units.ids != unknown
    if keep.all():
        return units
    counts = np.concatenate(([0], np.cumsum(keep)))
    nothing_known = (np.diff(counts[units.offsets]) == 0) & (units.lengths > 0)
    keep[units.offsets[:-1][nothing_known]] = True
    return units.select(keep)


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
