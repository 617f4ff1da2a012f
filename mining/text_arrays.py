"""Texts of callers as Arrow strings and as plain UTF-8: of any size, and with what UTF-8 cannot
hold replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mining.encoder.tokens import check_each

Texts: TypeAlias = "Sequence[str] | pa.Array | pa.ChunkedArray"
"""Python strings, or an Arrow array of strings without nulls"""
LARGEST = (1 << 31) - 1
"""Bytes of text that one Arrow array of type ``string`` holds, by its offsets of 32 bits."""
BLOCK_BYTES = 4 << 20
"""A block of texts ends at so many bytes even when it has few texts."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class Utf8(NamedTuple):
    """Texts end to end: text i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: np.ndarray
    """uint8, read-only"""
    offsets: np.ndarray
    """(n + 1,) int64"""


def whole(text: str, instead: str = "\ufffd") -> str:
    """The text with `instead` for lone surrogates: texts read with ``surrogateescape`` hold them,
    UTF-8 cannot."""
    return _SURROGATES.sub(instead, text)


def text_array(texts: Sequence[str | None], instead: str = "\ufffd") -> pa.Array:
    """Texts as an Arrow array of type ``large_string``; lone surrogates become `instead`."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else whole(text, instead) for text in texts], pa.large_string())


def check_arrow(texts: pa.Array | pa.ChunkedArray) -> None:
    """Raise TypeError unless an Arrow array holds texts and nothing is missing."""
    kind = texts.type
    if not any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise TypeError(f"encode takes an array of strings, not of {kind}")
    if texts.null_count:
        missing = texts.is_null().to_pylist().index(True)
        raise TypeError(f"text {missing} is NoneType, not str")


def strings(texts: Texts) -> Sequence[str]:
    """The texts as Python strings."""
    listed: Sequence[str] = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else texts
    return listed


def utf8_blocks(texts: Texts, first: int, last: int) -> Iterator[tuple[int, Utf8]]:
    """The texts `first` to `last` in order, in blocks of `BLOCK_BYTES` bytes (of one text where it
    is longer), each with the number of its first text; lone surrogates are ``?``.

    Raises TypeError for an element that is no ``str``, ValueError for an Arrow array that is not
    UTF-8.
    """
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        part = texts.slice(first, last - first)
        chunks = part.chunks if isinstance(part, pa.ChunkedArray) else [part]
        for chunk in chunks:
            chunk.validate(full=True)
    else:
        listed = list(texts[first:last])
        if any(type(text) is not str for text in listed):
            check_each(listed, first)
        chunks = [text_array(listed, "?")]
    for chunk in chunks:
        data, offsets = _buffers(chunk)
        start, count = 0, len(chunk)
        while start < count:
            stop = int(np.searchsorted(offsets, offsets[start] + BLOCK_BYTES, side="right")) - 1
            stop = max(start + 1, stop)
            yield first + start, Utf8(data, offsets[start : stop + 1])
            start = stop
        first += count


def _buffers(array: pa.Array) -> Utf8:
    """The buffers of an array of strings, without a copy of the text."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    _, offsets, data = array.buffers()
    if not len(array):
        return Utf8(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    width = np.int32 if pa.types.is_string(array.type) else np.int64
    bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    text.flags.writeable = False
    return Utf8(text, bounds)


def table_parts(table: pa.Table, limit: int | None = None) -> list[pa.Table]:
    """A table in parts, in order, of which no column of strings holds more than `limit` bytes
    (`LARGEST`).

    A row that alone has more is a part of its own.
    """
    most = LARGEST if limit is None else limit
    columns = [table.column(field.name) for field in table.schema if pa.types.is_large_string(field.type)]
    lengths = [pc.fill_null(pc.binary_length(column), 0) for column in columns]
    if all((pc.sum(length).as_py() or 0) <= most for length in lengths):
        return [table]
    ends = np.cumsum(np.stack([length.to_numpy() for length in lengths]), axis=1, dtype=np.int64)
    parts, start = [], 0
    while start < len(table):
        before = ends[:, start - 1] if start else np.zeros(len(ends), np.int64)
        stops = [int(np.searchsorted(end, base + most, side="right")) for end, base in zip(ends, before, strict=True)]
        stop = max(start + 1, min(stops))
        parts.append(table.slice(start, stop - start))
        start = stop
    return parts
