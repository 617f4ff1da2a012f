"""Sums of table rows and rows of length one, compiled, each addition in a fixed order.

A sentence's sum is the float32 sum of its rows in their order, as `averaging.bag_sums` computes it;
float16 and int8 rows are widened to float32 one number at a time. A row of length one has its norm
from float64: eight partial sums of squares, of the numbers whose place has the same rest by eight,
added in pairs; it is multiplied by the float64 inverse of its norm.
"""

from __future__ import annotations

import numpy as np

from mining.compiled import compiled
from mining.encoder.word_cache.native import widened

_NOTHING = np.float32(0)


@compiled
def add_four(row, table, scales, a, b, c, d):  # type: ignore[no-untyped-def]
    """Add four rows of `table`, one after another."""
    most = len(scales) - 1
    first, second = scales[min(a, most)], scales[min(b, most)]
    third, fourth = scales[min(c, most)], scales[min(d, most)]
    for i in range(len(row)):
        row[i] = (
            ((row[i] + widened(table[a, i], first)) + widened(table[b, i], second)) + widened(table[c, i], third)
        ) + widened(table[d, i], fourth)


@compiled
def add_one(row, table, scales, a):  # type: ignore[no-untyped-def]
    """Add one row of `table`."""
    scale = scales[min(a, len(scales) - 1)]
    for i in range(len(row)):
        row[i] = row[i] + widened(table[a, i], scale)


@compiled
def unit_row(row):  # type: ignore[no-untyped-def]
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
def square_norm(row):  # type: ignore[no-untyped-def]
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
def unit_sums(ids, offsets, first, last, table, scales, rows, valid):  # type: ignore[no-untyped-def]
    """Unit vectors of the texts `first` to `last`: ``rows[i]`` from the pieces
    ``ids[offsets[i]:offsets[i + 1]]``.

    `scales` has one number for all rows of a table that is not int8. A text without pieces is a
    zero row.
    """
    for text in range(first, last):
        row = rows[text]
        row[:] = _NOTHING
        start, stop = offsets[text], offsets[text + 1]
        if start == stop:
            valid[text] = False
            continue
        place = start
        while place + 4 <= stop:
            add_four(row, table, scales, ids[place], ids[place + 1], ids[place + 2], ids[place + 3])
            place += 4
        while place < stop:
            add_one(row, table, scales, ids[place])
            place += 1
        share = np.float32(1) / np.float32(stop - start)
        for i in range(len(row)):
            row[i] *= share
        valid[text] = unit_row(row)


@compiled
def unit_rows_of(rows, first, last, valid):  # type: ignore[no-untyped-def]
    """Bring rows to length one in place."""
    for text in range(first, last):
        valid[text] = unit_row(rows[text])
