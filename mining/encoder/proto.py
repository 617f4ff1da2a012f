"""What a sentencepiece model file says of itself, read from protocol buffers' wire format.

The classes generated for it cannot be imported beside another copy of the same message (they
register themselves globally), and a dozen fields are all that is needed. Field numbers as in
``sentencepiece_model.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

UNIGRAM = 1
"""`ModelFacts.model_type` of a unigram model"""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""kinds of pieces"""
_PIECES, _TRAINER, _NORMALISER = 1, 2, 3
"""numbers of a model file's fields"""
MOST_PIECES = 1 << 21
"""The largest published vocabularies have a quarter of a million; more would only fill the
memory."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT = struct.Struct("<f")
_Value = int | bytes | float


class Piece(NamedTuple):
    """One piece; its id is its index in the list."""

    text: bytes
    """UTF-8"""
    score: float
    """logarithm of its probability, float32"""
    kind: int
    """`NORMAL`, `UNKNOWN`, ..."""


class ModelFacts(NamedTuple):
    """The part of a model that decides how a text falls into pieces."""

    pieces: list[Piece]
    model_type: int
    treat_whitespace_as_suffix: bool
    byte_fallback: bool
    charsmap: bytes
    """the compiled rules of normalisation, empty for none"""
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool

    @property
    def has_own_symbols(self) -> bool:
        """Whether there are pieces that the user defined: they escape normalisation."""
        return any(piece.kind == USER_DEFINED for piece in self.pieces)


def parts_of(model: bytes) -> tuple[bytes, list[bytes]]:
    """The fields of a model file that say how a text is cut, and of them the messages on
    normalisation.

    Raises ValueError when it is not one, or has more than `MOST_PIECES` pieces.
    """
    at, count, size = 0, 0, len(model)
    # Nearly all of a file are short messages with a piece each: they are stepped over.
    with suppress(IndexError):
        while model[at] == 0x0A and (length := model[at + 1]) < 0x80:
            at += 2 + length
            count += 1
    if count > MOST_PIECES:
        raise ValueError(f"more than {MOST_PIECES:,} pieces")
    if at > size:
        raise ValueError(f"a field ends at byte {at} of {size}")
    kept, rules = [model[:at]], []
    for number, value, first, last in _spans(model, at):
        count += number == _PIECES
        if count > MOST_PIECES:
            raise ValueError(f"more than {MOST_PIECES:,} pieces")
        if number in (_PIECES, _TRAINER, _NORMALISER):
            kept.append(model[first:last])
        if number == _NORMALISER:
            rules.append(_bytes(value))
    return b"".join(kept), rules


def read_facts(model: bytes) -> ModelFacts:
    """The facts of a model file; raises ValueError when it is not one."""
    pieces: list[Piece] = []
    trainer: dict[int, _Value] = {}
    normaliser: dict[int, _Value] = {}
    for number, value in fields(model):
        if number == _PIECES:
            pieces.append(_piece(_bytes(value)))
        elif number == _TRAINER:
            trainer.update(fields(_bytes(value)))
        elif number == _NORMALISER:
            normaliser.update(fields(_bytes(value)))
    return ModelFacts(
        pieces,
        model_type=int(trainer.get(3, UNIGRAM)),
        treat_whitespace_as_suffix=bool(trainer.get(24, False)),
        byte_fallback=bool(trainer.get(35, False)),
        charsmap=_bytes(normaliser.get(2, b"")),
        add_dummy_prefix=bool(normaliser.get(3, True)),
        remove_extra_whitespaces=bool(normaliser.get(4, True)),
        escape_whitespaces=bool(normaliser.get(5, True)),
    )


def _piece(data: bytes) -> Piece:
    stop = 2 + data[1] if len(data) > 1 else 0
    if data[:1] == b"\x0a" and stop < 130 and stop + 5 == len(data) and data[stop] == 0x15:
        # Nearly all look like this: a short text, a score, nothing else.
        return Piece(data[2:stop], _FLOAT.unpack_from(data, stop + 1)[0], NORMAL)
    found = dict(fields(data))
    return Piece(_bytes(found.get(1, b"")), float(found.get(2, 0.0)), int(found.get(3, NORMAL)))


def _bytes(value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field of another type than expected")
    return value


def fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """Numbers and values of a message's fields, in order; raises ValueError when it is cut short or
    no message."""
    for number, value, _, _ in _spans(data, 0):
        yield number, value


def _spans(data: bytes, at: int) -> Iterator[tuple[int, _Value, int, int]]:
    """Fields from byte `at` on: number, value, and where the field starts and ends."""
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        kind = tag & 7
        value: _Value
        if kind == _VARINT:
            value, at = _varint(data, at)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}.get(kind, 0)
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif not size:
                raise ValueError(f"wire type {kind} at byte {at}")
            if at + size > len(data):
                raise ValueError(f"a field ends at byte {at + size} of {len(data)}")
            value = data[at : at + size]
            if kind == _FIXED32:
                value = float(_FLOAT.unpack(value)[0])
            at += size
        yield tag >> 3, value, start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of 7 bits a byte, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError(f"an integer without end at byte {at}")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
