"""Blocks of lines cut into cells without a Python object a row: kernels over bytes, strings in
Arrow.

What `mining.corpus.lines` says of lines and `str` of white space holds here too; the readers row by
row are the reference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.compiled import BoolVector, Int64Matrix, Int64Vector, UInt8Vector, compiled, in_ranges
from mining.text_arrays import LARGEST

_TAB, _LINE_FEED, _RETURN, _SPACE = 9, 10, 13, 32


class Cells(NamedTuple):
    """The cells of a block of n lines, each `width` wide: bounds in `data`, and the lines that are
    not so wide.

    `data` is uint8; `starts` and `stops` are (n, width) int64; `tabs` (n,) int64 counts the tabs of
    each line. A line of another width has only the bounds of its first cells.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    tabs: NDArray[np.int64]

    @property
    def whole(self) -> NDArray[np.bool_]:
        """(n,) bool: the line has the declared width."""
        return self.tabs == self.starts.shape[1] - 1


@compiled
def _after_marks(data: UInt8Vector, i: int) -> int:
    """The first position from `i` on where no byte order mark begins."""
    while i + 2 < len(data) and data[i] == 0xEF and data[i + 1] == 0xBB and data[i + 2] == 0xBF:
        i += 3
    return i


@compiled
def _find_cells(data: UInt8Vector, separator: int, starts: Int64Matrix, stops: Int64Matrix, tabs: Int64Vector) -> None:
    line, cell, width = 0, 0, starts.shape[1]
    starts[0, 0] = _after_marks(data, 0)
    for i in range(len(data) + 1):
        at_end = i == len(data) or data[i] == _LINE_FEED
        if not at_end and data[i] != separator:
            continue
        if cell < width:
            stops[line, cell] = i
        if not at_end:
            cell += 1
            if cell < width:
                starts[line, cell] = _after_marks(data, i + 1)
            continue
        tabs[line] = cell
        if i > starts[line, 0] and data[i - 1] == _RETURN and cell < width and stops[line, cell] > starts[line, cell]:
            stops[line, cell] -= 1
        line, cell = line + 1, 0
        if i < len(data):
            starts[line, 0] = _after_marks(data, i + 1)


@compiled
def _count(data: UInt8Vector, value: int) -> int:
    count = 0
    for byte in data:
        count += byte == value
    return count


def find_cells(block: bytes, width: int, separator: int = _TAB) -> Cells:
    r"""Cut a block of lines (without the ``\n`` of the last) at its tabs; one ``\r`` at the end of
    a line is left out.

    Byte order marks at the start of a cell are left out too. A `separator` that is no byte (-1)
    leaves lines whole."""
    # A copy, since kernels take writable arrays only: another type would have to be compiled for.
    data = np.frombuffer(bytearray(block), dtype=np.uint8)
    lines = _count(data, _LINE_FEED) + 1
    starts, stops = np.zeros((lines, width), dtype=np.int64), np.zeros((lines, width), dtype=np.int64)
    tabs = np.empty(lines, dtype=np.int64)
    _find_cells(data, separator, starts, stops, tabs)
    return Cells(data, starts, stops, tabs)


@compiled
def _space_at(data: UInt8Vector, i: int, stop: int) -> int:
    """Bytes of the white space character (`str.isspace`) at `i`, 0 if there is none; `data` is
    valid UTF-8."""
    first = data[i]
    if first < 128:
        return 1 if first == _SPACE or 9 <= first <= 13 or 28 <= first <= 31 else 0
    if first == 0xC2:
        return 2 if data[i + 1] == 0x85 or data[i + 1] == 0xA0 else 0
    if first not in (0xE1, 0xE2, 0xE3):
        return 0
    second, third = data[i + 1], data[i + 2]
    if first == 0xE1:
        found = second == 0x9A and third == 0x80
    elif first == 0xE3:
        found = second == 0x80 and third == 0x80
    elif second == 0x80:
        found = third <= 0x8A or third in (0xA8, 0xA9, 0xAF)
    else:
        found = second == 0x81 and third == 0x9F
    return 3 if found else 0


@compiled
def _inspect(data: UInt8Vector, starts: Int64Vector, stops: Int64Vector, chars: Int64Vector, blank: BoolVector) -> None:
    for row in range(len(starts)):
        count = 0
        for i in range(starts[row], stops[row]):
            count += (data[i] & 0xC0) != 0x80
        chars[row] = count
        i, step = starts[row], 1
        while i < stops[row] and step > 0:
            step = _space_at(data, i, stops[row])
            i += step
        blank[row] = i == stops[row]


def inspect(
    data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The characters (n,) int64 of each cell, and whether it is empty or nothing but white space
    (n,) bool."""
    chars, blank = np.empty(len(starts), dtype=np.int64), np.empty(len(starts), dtype=bool)
    _inspect(data, starts, stops, chars, blank)
    return chars, blank


@compiled
def _cut(
    data: UInt8Vector, starts: Int64Vector, stops: Int64Vector, chars: Int64Vector, rows: Int64Vector, limit: int
) -> None:
    for row in rows:
        if chars[row] <= limit:
            continue
        i, count = starts[row], 0
        while count < limit or (data[i] & 0xC0) == 0x80:
            count += (data[i] & 0xC0) != 0x80
            i += 1
        stops[row], chars[row] = i, limit


def cut(cells: tuple[NDArray, NDArray, NDArray, NDArray], rows: NDArray[np.int64], limit: int) -> None:
    """Let cells end after `limit` characters, in place; `cells` are data, starts, stops and
    characters."""
    _cut(*cells, rows, limit)


@compiled
def _copy(
    data: UInt8Vector, starts: Int64Vector, offsets: Int64Vector, first: int, last: int, out: UInt8Vector
) -> None:
    for row in range(first, last):
        shift = starts[row] - offsets[row]
        for i in range(offsets[row], offsets[row + 1]):
            out[i] = data[i + shift]


def strings(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """Cells (n,) as Arrow strings, of type ``large_string`` where they hold more than 2 GiB."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    starts = np.ascontiguousarray(starts)
    in_ranges(lambda a, b: _copy(data, starts, offsets, a, b, out), len(starts), 1)
    wide = int(offsets[-1]) > LARGEST
    kind, limits = (pa.large_string(), offsets) if wide else (pa.string(), offsets.astype(np.int32))
    return pa.Array.from_buffers(kind, len(starts), [None, pa.py_buffer(limits), pa.py_buffer(out)])


def string_buffers(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of n strings (none null) one after the other, and the offsets (n + 1,) of each in
    them."""
    values = values.cast(pa.large_string())
    _, offsets, data = values.buffers()
    if not len(values):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    limits = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    # Copies, since kernels take writable arrays only: another type would have to be compiled for.
    return np.array(np.frombuffer(data or b"", dtype=np.uint8)[limits[0] : limits[-1]]), limits - limits[0]
