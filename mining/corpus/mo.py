"""gettext's binary catalogues (.mo)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mining.corpus.po import Message

_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}


def parse_mo(data: bytes, charset: str) -> Iterator[Message]:
    """The messages of a catalogue; undecodable bytes are surrogate escapes.

    `line` is the place of a message, from 1; the header stands before them all and is not counted.

    Raises ValueError or struct.error if the file is truncated or otherwise unsound.
    """
    order = _ORDERS.get(data[:4])
    if order is None:
        raise ValueError("it does not begin as a .mo file")
    revision, count, *tables = struct.unpack(f"{order}4I", data[4:20])
    if revision >> 16 > 1:
        raise ValueError(f"its revision {revision >> 16} is unknown")
    sources, translations = (_strings(data, order, table, count) for table in tables)
    first = 0 if b"" in sources[:1] else 1
    for place, (source, translation) in enumerate(zip(sources, translations, strict=True), first):
        context, separator, message = source.rpartition(b"\4")
        singular, *plural = message.split(b"\0", 1)
        forms = translation.split(b"\0") if plural else [translation]
        yield Message(
            place,
            _decoded(context, charset) if separator else None,
            _decoded(singular, charset),
            _decoded(plural[0], charset) if plural else None,
            tuple(_decoded(form, charset) for form in forms),
        )


def _strings(data: bytes, order: str, table: int, count: int) -> list[bytes]:
    if table + 8 * count > len(data):
        raise ValueError("it is truncated")
    places = list(struct.iter_unpack(f"{order}2I", data[table : table + 8 * count]))
    if any(offset + length > len(data) for length, offset in places):
        raise ValueError("it is truncated")
    if sum(length for length, _ in places) > 4 * len(data):  # a small file must not become a large one
        raise ValueError("its strings overlap")
    return [data[offset : offset + length] for length, offset in places]


def _decoded(text: bytes, charset: str) -> str:
    return text.decode(charset, "surrogateescape")
