"""Texts of callers as Arrow strings: of any size, and with what UTF-8 cannot hold replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Bytes of text that one Arrow array of type ``string`` holds, by its offsets of 32 bits.
LARGEST = (1 << 31) - 1
_SURROGATES = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str:
    """The text with lone surrogates as U+FFFD: texts read with ``surrogateescape`` hold them, UTF-8
    cannot."""
    return _SURROGATES.sub("\ufffd", text)


def text_array(texts: Sequence[str | None]) -> pa.Array:
    """Texts as an Arrow array of type ``large_string``; lone surrogates become U+FFFD."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else whole(text) for text in texts], pa.large_string())


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
