"""Best lists of the rows and of the columns of a tile of similarities, in one read of the tile.

A list holds the `count` best entries seen so far: `values` (n, count) float32, largest first, and
`places` (n, count) int64, the ids they belong to; -inf and -1 where nothing was seen yet. Its last
value is the threshold that a new entry must exceed. Thresholds rise quickly, so nearly all entries
fail: a strip of rows of the tile is compared in vector registers with the thresholds of its rows
and of its columns, one flag an entry, and only where one of eight flags is set are the entries
looked at one by one. A list that is not full yet gets a threshold from the tile itself. Entries
equal to the threshold are not taken; the certification in `exact` settles ties.

Two threads must not change one list at a time. Lists that have seen different parts are joined by
`merge_lists`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled

#: Rows that are compared with their thresholds before hits are looked at.
STRIP = 16


class Lists(NamedTuple):
    """Best entries of n rows: `values` (n, count) float32, largest first, and `places` (n, count)
    int64."""

    values: NDArray[np.float32]
    places: NDArray[np.int64]


def empty_lists(rows: int, count: int) -> Lists:
    """Lists in which nothing was seen yet."""
    return Lists(np.full((rows, count), -np.inf, np.float32), np.full((rows, count), -1, np.int64))


@compiled
def insert(values: Any, places: Any, row: Any, value: Any, place: Any) -> Any:
    """Put `value`, which exceeds the last entry, into the list of `row` in place of that; returns
    the threshold."""
    last = values.shape[1] - 1
    free = last
    while free > 0 and values[row, free - 1] < value:
        values[row, free], places[row, free] = values[row, free - 1], places[row, free - 1]
        free -= 1
    values[row, free], places[row, free] = value, place
    return values[row, last]


@compiled
def _mark(entries: Any, threshold: Any, limits: Any, flags: Any) -> None:
    """Flag the entries above the threshold of their row or the limit of their column: a loop
    without branches, which the compiler vectorises."""
    for j in range(entries.shape[0]):
        flags[j] = np.uint8((entries[j] > threshold) | (entries[j] > limits[j]))


@compiled
def find_hits(strip: Any, thresholds: Any, limits: Any, flags: Any, hits: Any) -> Any:
    """Write (row, group of eight columns) of each group with a hit to `hits` (·, 2) and return how
    many there are."""
    words = flags.view(np.uint64)
    found = 0
    for i in range(strip.shape[0]):
        _mark(strip[i], thresholds[i], limits, flags)
        for word in range(words.shape[0]):
            if words[word] != 0:
                hits[found, 0], hits[found, 1] = i, word
                found += 1
    return found


@compiled
def row_flags(columns: Any) -> Any:
    """One flag a column, rounded up to whole words; those beyond the last column are never set."""
    return np.zeros(columns + 7 - (columns - 1) % 8, np.uint8)


@compiled
def hits_for(columns: Any, rows: Any) -> Any:
    """Room for the hits of a strip of so many rows."""
    return np.empty((rows * ((columns + 7) // 8), 2), np.int64)


@compiled
def _limits(values: Any, first: Any, count: Any) -> Any:
    """The thresholds of `count` lists from `first` on."""
    limits = np.empty(count, np.float32)
    for j in range(count):
        limits[j] = values[first + j, values.shape[1] - 1]
    return limits


@compiled
def _raise_to(best: Any, entries: Any) -> None:
    for j in range(best.shape[0]):
        best[j] = entries[j] if entries[j] > best[j] else best[j]


@compiled
def _prime_columns(tile: Any, limits: Any, count: Any) -> None:
    """Limits for columns whose lists are not full yet: the rows are divided into `count` groups,
    and the smallest of the maxima of a column in them is reached by `count` entries. Only what
    reaches it has to be looked at."""
    rows, columns = tile.shape
    if rows < count:
        return
    best, smallest = np.empty(columns, np.float32), np.full(columns, np.inf, np.float32)
    for group in range(count):
        best[:] = -np.inf
        for i in range(rows * group // count, rows * (group + 1) // count):
            _raise_to(best, tile[i])
        for j in range(columns):
            smallest[j] = min(smallest[j], best[j])
    for j in range(columns):
        if limits[j] == -np.inf:
            limits[j] = np.nextafter(smallest[j], np.float32(-np.inf))


@compiled
def _primed(entries: Any, best: Any, count: Any) -> Any:
    """The same for a row; its groups are made of every w-th entry, so that their maxima are taken
    in vector registers. `best` (w,) is working space."""
    width = entries.shape[0] // count
    if width == 0:
        return np.float32(-np.inf)
    best[:width] = entries[:width]
    for group in range(1, count):
        _raise_to(best[:width], entries[group * width : (group + 1) * width])
    if width < count:
        return np.float32(-np.inf)
    smallest = np.float32(np.inf)
    for group in range(count):
        largest = np.float32(-np.inf)
        for j in range(width * group // count, width * (group + 1) // count):
            largest = max(largest, best[j])
        smallest = min(smallest, largest)
    return np.nextafter(smallest, np.float32(-np.inf))


@compiled
def _row_thresholds(strip: Any, first: Any, values: Any) -> Any:
    """Thresholds of the rows of a strip, found in the strip for lists that are not full yet."""
    thresholds, count = _limits(values, first, strip.shape[0]), values.shape[1]
    best = np.empty(strip.shape[1] // count, np.float32)
    for i in range(strip.shape[0]):
        if thresholds[i] == -np.inf:
            thresholds[i] = _primed(strip[i], best, count)
    return thresholds


@compiled
def _column_limits(tile: Any, first: Any, values: Any) -> Any:
    """Thresholds of the columns of a tile, found in the tile for lists that are not full yet."""
    limits = _limits(values, first, tile.shape[1])
    for j in range(limits.shape[0]):
        if limits[j] == -np.inf:
            _prime_columns(tile, limits, values.shape[1])
            break
    return limits


@compiled
def update(
    tile: Any,
    first_row: Any,
    first_column: Any,
    row_values: Any,
    row_places: Any,
    column_values: Any,
    column_places: Any,
) -> None:
    """Bring the lists of the rows and of the columns up to date with a tile that they have not
    seen.

    `tile` (r, c) float32 C-contiguous: the similarity of row ``first_row + i`` of one side and row
    ``first_column + j`` of the other. Row lists hold rows of the other side, column lists the
    reverse.
    """
    rows, columns = tile.shape
    flags, limits = row_flags(columns), _column_limits(tile, first_column, column_values)
    hits = hits_for(columns, STRIP)
    for first in range(0, rows, STRIP):
        strip = tile[first : first + STRIP]
        thresholds = _row_thresholds(strip, first_row + first, row_values)
        for h in range(find_hits(strip, thresholds, limits, flags, hits)):
            i, start = hits[h, 0], 8 * hits[h, 1]
            row = first_row + first + i
            for j in range(start, min(start + 8, columns)):
                value, column = strip[i, j], first_column + j
                if value > thresholds[i]:
                    thresholds[i] = max(thresholds[i], insert(row_values, row_places, row, value, column))
                if value > limits[j]:
                    limits[j] = max(limits[j], insert(column_values, column_places, column, value, row))


@compiled
def merge_lists(values: Any, places: Any, other_values: Any, other_places: Any, start: Any, stop: Any) -> None:
    """Add the entries of other lists, which have seen other places, to the lists of rows `start` to
    `stop`."""
    last = values.shape[1] - 1
    for row in range(start, stop):
        for c in range(other_values.shape[1]):
            if not other_values[row, c] > values[row, last]:
                break
            insert(values, places, row, other_values[row, c], other_places[row, c])
