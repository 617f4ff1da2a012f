"""Texts as one run of UTF-8 bytes: from Arrow's buffers as they are, from Python strings in
blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

Texts: TypeAlias = "Sequence[str] | pa.Array | pa.ChunkedArray"
"""Python strings, or an Arrow array of strings without nulls"""
BLOCK_TEXTS = 32_768
BLOCK_BYTES = 4 << 20
"""A block of texts ends at so many bytes even when it has few texts."""


class Utf8(NamedTuple):
    """Texts end to end: text i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: np.ndarray
    """uint8, read-only"""
    offsets: np.ndarray
    """(n + 1,) int64"""


def is_arrow(texts: object) -> bool:
    """Whether `texts` is an Arrow array, in one or several chunks."""
    return isinstance(texts, (pa.Array, pa.ChunkedArray))


def check_arrow(texts: Any) -> None:
    """Raise TypeError unless an Arrow array holds texts and nothing is missing."""
    kind = texts.type
    if not any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise TypeError(f"encode takes an array of strings, not of {kind}")
    if texts.null_count:
        place = texts.is_null().to_pylist().index(True)
        raise TypeError(f"text {place} is NoneType, not str")


def strings(texts: Texts) -> Sequence[str]:
    """The texts as Python strings."""
    listed: Sequence[str] = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else texts
    return listed


def blocks(texts: Texts, most: int = 0) -> Iterator[tuple[int, Utf8]]:
    """The texts in order, in blocks of at most `most` (0: `BLOCK_TEXTS`), each with the number of
    its first; lone surrogates are ``?``.

    Raises TypeError for an element that is no ``str``, ValueError for an Arrow array that is not
    UTF-8.
    """
    start, most = 0, most or BLOCK_TEXTS
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
            chunk.validate(full=True)
            for block in _cut(_buffers(chunk), most):
                yield start, block
                start += len(block.offsets) - 1
        return
    for first in range(0, len(texts), most):
        for block in _cut(_buffers(_array(list(texts[first : first + most]), first)), most):
            yield start, block
            start += len(block.offsets) - 1


def _array(texts: list[str], first: int) -> pa.Array:
    if any(type(text) is not str for text in texts):
        for place, text in enumerate(texts, first):
            if not isinstance(text, str):
                raise TypeError(f"text {place} is {type(text).__name__}, not str")
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "replace") for text in texts], pa.large_binary())


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


def _cut(texts: Utf8, most: int) -> Iterator[Utf8]:
    """Blocks of at most `most` texts and, unless one text is longer, `BLOCK_BYTES` bytes."""
    start, count = 0, len(texts.offsets) - 1
    while start < count:
        by_bytes = int(np.searchsorted(texts.offsets, texts.offsets[start] + BLOCK_BYTES, side="right")) - 1
        stop = min(count, start + most, max(start + 1, by_bytes))
        yield Utf8(texts.data, texts.offsets[start : stop + 1])
        start = stop
