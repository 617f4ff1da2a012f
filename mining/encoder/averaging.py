"""Means of token vectors and rows of length one, the same to the last bit for all batches.

A sentence's sum is the float32 sum of its rows in their order, by torch (`bags.bag_sums`) or
compiled (`unit_sums`); float16 and int8 rows are widened to float32 one number at a time. A row of
length one has its norm from float64: eight partial sums of squares, of the numbers whose column has
the same rest by eight, added in pairs; it is multiplied by the float64 inverse of its norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from mining.compiled import BoolVector, Float32Matrix, Float32Vector, Int, Int32Vector, Int64Vector, compiled

_NOTHING = np.float32(0)


def unit_rows(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length one, and which rows have a direction at all.

    `sums` (n, dim) float32. The norm is accumulated in float64 in a fixed order (`square_norm`), so
    a row's bytes depend on that row only. Returns (n, dim) float32 and (n,) bool; rows of norm zero
    (or not finite) stay zero and are invalid.
    """
    rows, valid = np.array(sums, np.float32, order="C"), np.empty(len(sums), bool)
    _unit_rows(rows, valid)
    return rows, valid


def _widened(_context: Any, number: Any, scale: Any) -> Any:
    """A stored number as float32: of a float16 (its bits, uint16), of an int8 times its row's
    scale, or itself."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, factor = arguments
        if number == types.uint16:
            return builder.fpext(builder.bitcast(value, ir.HalfType()), ir.FloatType())
        if number == types.int8:
            return builder.fmul(builder.sitofp(value, ir.FloatType()), factor)
        return value

    return types.float32(number, scale), generate


widened: Any = intrinsic(_widened)


@compiled
def add_four(row: Float32Vector, table: Any, scales: Float32Vector, a: Int, b: Int, c: Int, d: Int) -> None:
    """Add four rows of `table`, one after another."""
    most = len(scales) - 1
    first, second = scales[min(a, most)], scales[min(b, most)]
    third, fourth = scales[min(c, most)], scales[min(d, most)]
    for i in range(len(row)):
        row[i] = (
            ((row[i] + widened(table[a, i], first)) + widened(table[b, i], second)) + widened(table[c, i], third)
        ) + widened(table[d, i], fourth)


@compiled
def add_one(row: Float32Vector, table: Any, scales: Float32Vector, a: Int) -> None:
    """Add one row of `table`."""
    scale = scales[min(a, len(scales) - 1)]
    for i in range(len(row)):
        row[i] = row[i] + widened(table[a, i], scale)


@compiled
def unit_row(row: Float32Vector) -> bool:
    """Bring a float32 row to length one; False, and zeros, when it has no direction."""
    total = square_norm(row)
    norm = np.sqrt(total)
    if not (np.isfinite(norm) and norm > 0):
        row[:] = _NOTHING
        return False
    inverse = 1.0 / norm
    for i in range(len(row)):
        row[i] = np.float32(np.float64(row[i]) * inverse)
    return True


@compiled
def square_norm(row: Float32Vector) -> float:
    """Sum of squares in float64, in eight parts."""
    a = b = c = d = e = f = g = h = 0.0
    whole = len(row) - len(row) % 8
    for i in range(0, whole, 8):
        a += np.float64(row[i]) * np.float64(row[i])
        b += np.float64(row[i + 1]) * np.float64(row[i + 1])
        c += np.float64(row[i + 2]) * np.float64(row[i + 2])
        d += np.float64(row[i + 3]) * np.float64(row[i + 3])
        e += np.float64(row[i + 4]) * np.float64(row[i + 4])
        f += np.float64(row[i + 5]) * np.float64(row[i + 5])
        g += np.float64(row[i + 6]) * np.float64(row[i + 6])
        h += np.float64(row[i + 7]) * np.float64(row[i + 7])
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(whole, len(row)):
        total += np.float64(row[i]) * np.float64(row[i])
    return total


@compiled
def unit_sums(
    ids: Int32Vector, offsets: Int64Vector, table: Any, scales: Float32Vector, rows: Float32Matrix, valid: BoolVector
) -> None:
    """Unit vectors of texts: ``rows[i]`` from the tokens ``ids[offsets[i]:offsets[i + 1]]``.

    `scales` has one number for all rows of a table that is not int8. A text without tokens is a
    zero row.
    """
    for text in range(len(offsets) - 1):
        row = rows[text]
        row[:] = _NOTHING
        start, stop = offsets[text], offsets[text + 1]
        if start == stop:
            valid[text] = False
            continue
        token = start
        while token + 4 <= stop:
            add_four(row, table, scales, ids[token], ids[token + 1], ids[token + 2], ids[token + 3])
            token += 4
        while token < stop:
            add_one(row, table, scales, ids[token])
            token += 1
        share = np.float32(1) / np.float32(stop - start)
        for i in range(len(row)):
            row[i] *= share
        valid[text] = unit_row(row)


@compiled
def _unit_rows(rows: Float32Matrix, valid: BoolVector) -> None:
    """Bring rows to length one in place."""
    for text in range(len(rows)):
        valid[text] = unit_row(rows[text])
