"""Sentences to sentencepiece ids, kept as one flat array instead of a list of lists."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sentencepiece

from mining.devices import resolve_threads
from mining.encoder.normaliser import applied_model

PIECES_FILE = "sentencepiece.model"
WORD_BOUNDARY = "\u2581"
"""The piece sentencepiece writes for a space; it carries no character of the text."""

_LONGEST_REASON = 200


class Tokens(NamedTuple):
    """Piece ids of ``n`` texts, end to end: text ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: np.ndarray
    """(total,) int32"""
    offsets: np.ndarray
    """(n + 1,) int64, ascending from 0"""

    @property
    def lengths(self) -> np.ndarray:
        """(n,) int64: pieces of each text."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> Tokens:
        """The pieces of the texts `rows`, in that order, copied together."""
        starts = np.asarray(self.offsets)[rows]
        lengths = np.asarray(self.offsets)[rows + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Tokens(np.asarray(self.ids[places]), offsets)

    def truncate(self, limit: int) -> Tokens:
        """At most the first `limit` pieces of each text."""
        return self.select(np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], self.lengths) < limit)

    def select(self, keep: np.ndarray) -> Tokens:
        """The pieces for which `keep`, (total,) bool, is true."""
        counts = np.concatenate(([0], np.cumsum(keep)))
        return Tokens(self.ids[keep], counts[self.offsets])


def check_texts(texts: Sequence[str]) -> None:
    """Raise TypeError unless `texts` is a sequence of sentences; a plain string would be encoded
    letter by letter."""
    if isinstance(texts, (str, bytes)):
        raise TypeError("encode takes a sequence of texts, not one text: pass [text]")


def sentencepiece_processor(model: bytes) -> Any:
    """The processor of a model file whose rules were looked at (`normaliser`); raises ValueError
    when it is none."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(" ".join(str(error).split())[:_LONGEST_REASON]) from None
    return processor


class PieceTokenizer:
    """A sentencepiece model with this project's rule for unknown pieces.

    Unknown pieces are left out; a text in which nothing is known is one unknown piece; a text
    without any piece stays empty. A bare word boundary counts as nothing: sentencepiece puts one
    before a word of unknown characters. Wieting et al. 2019, section 2 (encoders); the rule for
    unknown pieces is that of the published code.
    """

    kind = "pieces"

    def __init__(self, model: bytes) -> None:
        """`model`: the bytes of a sentencepiece model file; raises ValueError with the reason when
        they are not one."""
        self.model = model
        self.applied = applied_model(model)
        """the model that texts are cut with: what is unseen is left out (`unseen`)"""
        self._processor = sentencepiece_processor(self.applied)
        self.size: int = self._processor.get_piece_size()
        self.unknown: int = self._processor.unk_id()
        boundary: int = self._processor.piece_to_id(WORD_BOUNDARY)
        self.boundary = boundary if boundary != self.unknown else -1

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Piece ids of `texts`; raises TypeError when an element is no ``str``. Lone surrogates are
        read as ``?``."""
        check_texts(texts)
        return self._drop_unknown(self.all_pieces(list(texts), threads))

    def files(self) -> dict[str, bytes]:
        """``sentencepiece.model``."""
        return {PIECES_FILE: self.model}

    def settings(self) -> dict[str, Any]:
        """Nothing: the sentencepiece model says all."""
        return {}

    def all_pieces(self, texts: list[str], threads: int = 0) -> Tokens:
        """The pieces of `texts` as sentencepiece finds them, every unknown one among them."""
        lists = self._encode(texts, resolve_threads(threads))
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        return Tokens(np.fromiter(itertools.chain.from_iterable(lists), np.int32, int(offsets[-1])), offsets)

    def _encode(self, texts: list[str], threads: int) -> list[list[int]]:
        if not texts:
            return []
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"text {place} is {type(text).__name__}, not str")
        try:
            return self._processor.encode(texts, out_type=int, num_threads=threads)
        except (TypeError, UnicodeEncodeError):
            # A lone surrogate cannot be written as UTF-8, and sentencepiece reports it as a wrong
            # type.
            whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
            return self._processor.encode(whole, out_type=int, num_threads=threads)

    def _drop_unknown(self, pieces: Tokens) -> Tokens:
        known = pieces.ids != self.unknown
        if known.all():
            return pieces
        owner = np.repeat(np.arange(len(pieces.offsets) - 1), pieces.lengths)
        content = np.bincount(owner[known & (pieces.ids != self.boundary)], minlength=len(pieces.offsets) - 1)
        unknown_only = (content == 0) & (np.bincount(owner[~known], minlength=len(content)) > 0)
        # Of a text of unknown pieces only, the first unknown piece stands for the text.
        first = np.zeros(len(known), bool)
        places = np.flatnonzero(~known)
        _, earliest = np.unique(owner[places], return_index=True)
        first[places[earliest]] = True
        lost = unknown_only[owner]
        return pieces.select(np.where(lost, first, known))
