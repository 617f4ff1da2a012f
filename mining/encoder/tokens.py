"""Token ids of many texts as one flat array, instead of a list of lists."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WORD_BOUNDARY = "\u2581"
"""The piece sentencepiece writes for a space; it carries no character of the text."""


class Tokens(NamedTuple):
    """Token ids of ``n`` texts, end to end: text ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: np.ndarray
    """(total,) int32"""
    offsets: np.ndarray
    """(n + 1,) int64, ascending from 0"""

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: tokens of each text."""
        return np.diff(self.offsets)

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Tokens:
        """The ids of each text, from one list a text."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        return cls(np.fromiter(itertools.chain.from_iterable(lists), np.int32, int(offsets[-1])), offsets)

    @classmethod
    def joined(cls, parts: Sequence[Tokens]) -> Tokens:
        """The texts of all `parts`, one part after another."""
        ends = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        ids = np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)])
        return cls(ids, np.concatenate([np.zeros(1, np.int64), *offsets]))

    def take(self, rows: np.ndarray) -> Tokens:
        """The tokens of the texts `rows`, in that order, copied together."""
        starts = np.asarray(self.offsets)[rows]
        lengths = np.asarray(self.offsets)[rows + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Tokens(np.asarray(self.ids[positions]), offsets)

    def truncate(self, limit: int) -> Tokens:
        """At most the first `limit` tokens of each text."""
        return self.select(np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], self.lengths) < limit)

    def select(self, keep: np.ndarray) -> Tokens:
        """The tokens for which `keep`, (total,) bool, is true."""
        counts = np.concatenate(([0], np.cumsum(keep)))
        return Tokens(self.ids[keep], counts[self.offsets])

    def known(self, unknown: int, empty: int = -1) -> Tokens:
        """Without the `unknown` tokens; of a text in which nothing else is, the first stays.

        `empty` is a token that counts as nothing in such a text: the bare word boundary that
        sentencepiece puts before a word of unknown characters.
        """
        keep = self.ids != unknown
        if keep.all():
            return self
        content, unknowns = (
            np.diff(np.concatenate(([0], np.cumsum(found)))[self.offsets])
            for found in (keep & (self.ids != empty), ~keep)
        )
        lost = (content == 0) & (unknowns > 0)
        keep &= ~np.repeat(lost, self.lengths)
        first = np.searchsorted(np.flatnonzero(self.ids == unknown), self.offsets[:-1][lost])
        keep[np.flatnonzero(self.ids == unknown)[first]] = True
        return self.select(keep)


def check_texts(texts: Sequence[str]) -> None:
    """Raise TypeError unless `texts` is a sequence of sentences; a plain string would be encoded
    letter by letter."""
    if isinstance(texts, (str, bytes)):
        raise TypeError("encode takes a sequence of texts, not one text: pass [text]")


def check_each(texts: Sequence[str], first: int = 0) -> None:
    """Raise TypeError that names the first element that is no ``str``; `first` is the number of
    ``texts[0]``."""
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"text {number} is {type(text).__name__}, not str")
