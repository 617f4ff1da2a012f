r"""Tables as TSV bytes, column by column, without a Python object a value.

A float has six decimals; a tab, ``\n`` or ``\r`` inside a text becomes a space; null is empty.
Every column is measured first, then written into the one buffer of the block; `tsv_line` is the
reference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.compiled import BoolVector, Int64Vector, UInt8Vector, compiled
from mining.corpus.cells import string_buffers
from mining.io.atomic import replacing
from mining.schemas import DECIMALS

_UNIT = 10**DECIMALS
#: Above it, six decimals are beyond what a float64 resolves and the digits are left to Python.
_LARGEST = float(1 << 48)
_TAB, _LINE_FEED, _RETURN, _SPACE = 9, 10, 13, 32
_POINT, _MINUS, _ZERO = 46, 45, 48


def tsv_line(values: Iterable[Any]) -> str:
    r"""One TSV row: floats with six decimals; a tab, ``\n`` or ``\r`` inside a text becomes a
    space; null is empty."""
    return "\t".join(_tsv_field(value) for value in values) + "\n"


def _tsv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}"
    return str(value).translate(_TSV_BLANKS)


_TSV_BLANKS = str.maketrans("\t\n\r", "   ")


@compiled
def _digits(value: int) -> int:
    count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


@compiled
def _measure_numbers(
    values: Int64Vector, negative: BoolVector, valid: BoolVector, least: int, ends: Int64Vector
) -> None:
    """`ends` grows by the characters of each number; `least` digits and a point for decimals (0:
    neither)."""
    for row in range(len(values)):
        if valid[row]:
            digits = _digits(values[row])
            ends[row] += max(digits, least) + (least > 0) + negative[row]


@compiled
def _write_numbers(
    values: Int64Vector,
    negative: BoolVector,
    valid: BoolVector,
    least: int,
    end: int,
    ends: Int64Vector,
    out: UInt8Vector,
) -> None:
    for row in range(len(values)):
        at, value = ends[row], values[row]
        if valid[row]:
            if negative[row]:
                out[at] = _MINUS
                at += 1
            digits = max(_digits(value), least)
            stop = at + digits + (least > 0)
            for i in range(digits):
                back = stop - 1 - i - (least > 0 and i >= least - 1)
                out[back] = _ZERO + value % 10
                value //= 10
            if least > 0:
                out[stop - least] = _POINT
            at = stop
        out[at] = end
        ends[row] = at + 1


@compiled
def _write_strings(data: UInt8Vector, offsets: Int64Vector, end: int, ends: Int64Vector, out: UInt8Vector) -> None:
    for row in range(len(offsets) - 1):
        shift = ends[row] - offsets[row]
        for i in range(offsets[row], offsets[row + 1]):
            byte = data[i]
            out[i + shift] = _SPACE if byte in (_TAB, _LINE_FEED, _RETURN) else byte
        at = offsets[row + 1] + shift
        out[at] = end
        ends[row] = at + 1


class _Strings:
    """A column of strings (null is empty)."""

    def __init__(self, column: pa.Array) -> None:
        self.data, self.offsets = string_buffers(column.cast(pa.large_string()).fill_null(""))

    def measure(self, ends: NDArray[np.int64]) -> None:
        ends += np.diff(self.offsets)

    def write(self, end: int, ends: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        _write_strings(self.data, self.offsets, end, ends, out)


class _Numbers:
    """A column of integers or, with `least` digits, of floats as integers of their last decimal."""

    def __init__(self, values: NDArray[np.int64], negative: NDArray[np.bool_], valid: NDArray[np.bool_], least: int):
        self.arrays, self.least = (np.abs(values), negative, valid), least

    def measure(self, ends: NDArray[np.int64]) -> None:
        _measure_numbers(*self.arrays, self.least, ends)

    def write(self, end: int, ends: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        _write_numbers(*self.arrays, self.least, end, ends, out)


def _field(column: pa.Array) -> _Strings | _Numbers:
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values * _UNIT
        nearest = np.rint(np.where(np.isfinite(scaled), scaled, 0.0))
        # Where the product lies near the middle of two decimals, or is not a plain number, Python
        # decides.
        clear = (np.abs(scaled) < _LARGEST) & (np.abs(scaled - nearest) < 0.4)
        if clear.all():
            return _Numbers(nearest.astype(np.int64), np.signbit(values), valid, DECIMALS + 1)
        return _Strings(pa.array([None if v is None else f"{v:.6f}" for v in column.to_pylist()], pa.string()))
    if pa.types.is_integer(column.type) and not pa.types.is_unsigned_integer(column.type):
        values = column.cast(pa.int64()).fill_null(0).to_numpy()
        if len(values) == 0 or values.min() > np.iinfo(np.int64).min:
            return _Numbers(values, values < 0, valid, 0)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _Strings(column)
    return _Strings(pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string()))


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array, of strings by offsets of 64 bits: together its chunks may have more
    than 2 GiB."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def tsv_bytes(columns: list[pa.Array | pa.ChunkedArray]) -> memoryview:
    """The rows of equally long columns (n each) as TSV, each row as `tsv_line` gives it."""
    arrays = [_one_array(column) for column in columns]
    fields = [_field(array) for array in arrays]
    sizes = np.full(len(arrays[0]), len(arrays), dtype=np.int64)
    for field in fields:
        field.measure(sizes)
    ends = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    for number, field in enumerate(fields, 1):
        field.write(_LINE_FEED if number == len(fields) else _TAB, ends, out)
    return out.data


@contextlib.contextmanager
def tsv_writer(path: str | Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    r"""Write a TSV file under a line of column names: yields a function that takes the blocks of
    rows.

    Floats have six decimals; a tab, ``\n`` or ``\r`` inside a text becomes a space; null is empty.
    """
    with replacing(path) as temporary, open(temporary, "wb") as out:
        out.write(("\t".join(schema.names) + "\n").encode("utf-8"))

        def write(block: pa.Table) -> None:
            out.write(tsv_bytes([block.column(name) for name in schema.names]))

        yield write


def write_tsv(path: str | Path, schema: pa.Schema, blocks: Iterable[pa.Table]) -> int:
    """Write blocks of rows as `tsv_writer` does; returns the number of rows."""
    rows = 0
    with tsv_writer(path, schema) as write:
        for block in blocks:
            write(block)
            rows += len(block)
    return rows
