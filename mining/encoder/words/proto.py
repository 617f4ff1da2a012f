"""What a sentencepiece model file says of itself, read from protocol buffers' wire format.

The classes generated for it cannot be imported beside another copy of the same message (they register themselves
globally), and a dozen fields are all that is needed. Field numbers as in ``sentencepiece_model.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

UNIGRAM = 1
"""`ModelFacts.model_type` of a unigram model"""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""kinds of pieces"""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT = struct.Struct("<f")
_Value = int | bytes | float


class Piece(NamedTuple):
    """One piece; its id is its place in the list."""

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


def read_facts(model: bytes) -> ModelFacts:
    """The facts of a model file; raises ValueError when it is not one."""
    pieces: list[Piece] = []
    trainer: dict[int, _Value] = {}
    normaliser: dict[int, _Value] = {}
    for number, value in _fields(model):
        if number == 1:
            pieces.append(_piece(_bytes(value)))
        elif number == 2:
            trainer.update(_fields(_bytes(value)))
        elif number == 3:
            normaliser.update(_fields(_bytes(value)))
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
    fields = dict(_fields(data))
    return Piece(_bytes(fields.get(1, b"")), float(fields.get(2, 0.0)), int(fields.get(3, NORMAL)))


def _bytes(value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field of another type than expected")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """Numbers and values of a message's fields, in order."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        value: _Value
        if kind == _VARINT:
            value, place = _varint(data, place)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}.get(kind, 0)
            if kind == _BYTES:
                size, place = _varint(data, place)
            elif not size:
                raise ValueError(f"wire type {kind} at byte {place}")
            if place + size > len(data):
                raise ValueError(f"a field ends at byte {place + size} of {len(data)}")
            value = data[place : place + size]
            if kind == _FIXED32:
                value = float(_FLOAT.unpack(value)[0])
            place += size
        yield tag >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """An integer of 7 bits a byte, and where it ends."""
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise ValueError(f"an integer without end at byte {place}")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
