"""Lists of the k nearest: the result of a search, and the lists that are kept while it goes on.

`Neighbours` are a result: ids and cosines, merged so that the number of shards never shows.

While tiles of similarities go by, an entry of a list is one number, its key: the similarity times
2^32 plus 2^32 - 1 - position, so that keys fall by (similarity descending, position). A similarity
is a 32-bit whole number, or the bits of a float32 in the same order (`ordered`). A list (`count`
keys, largest first; EMPTY where nothing was seen yet) is the `count` largest of the set of keys
that it was given. That does not depend on the order in which they came, nor on how often: clusters
may share pairs, threads may share clusters, and the result is always the same.

A row of a tile is compared in vector registers with the limit of its list and those of the lists of
its columns, one flag an entry, and only where one of eight flags is set are the entries looked at
one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.compiled import (
    Float32Matrix,
    Int32Matrix,
    Int32Vector,
    Int64Matrix,
    Int64Vector,
    Integer,
    Real,
    UInt8Vector,
    compiled,
)

NO_NEIGHBOUR = -1
EMPTY = int(np.iinfo(np.int64).min)
_EMPTY = np.int64(EMPTY)
#: `flip` of `ordered`: of similarities that are float32, and of whole numbers.
FLOATS, INTEGERS = np.int32(0x7FFFFFFF), np.int32(0)
_POSITIONS = 1 << 32
#: Lists up to this length are short.
_SHORT = 32


class Neighbours(NamedTuple):
    """The nearest neighbours of n rows: `ids` (n, k) int64 and `cosines` (n, k) float32, by (cosine
    descending, id).

    A list that is shorter than k ends in id -1 and cosine -inf.
    """

    ids: NDArray[np.int64]
    cosines: NDArray[np.float32]


def no_neighbours(rows: int, k: int) -> Neighbours:
    """Empty lists of length k for `rows` rows."""
    return Neighbours(np.full((rows, k), NO_NEIGHBOUR, np.int64), np.full((rows, k), -np.inf, np.float32))


@compiled
def place(ids: Int64Matrix, cosines: Float32Matrix, row: int, new: int, value: Real) -> None:
    """Insert an entry into the list of `row` by (cosine descending, id); what falls off the end is
    lost."""
    last = ids.shape[1] - 1
    free = last + 1
    while free > 0 and (
        cosines[row, free - 1] < value or (cosines[row, free - 1] == value and ids[row, free - 1] > new)
    ):
        if free <= last:
            ids[row, free], cosines[row, free] = ids[row, free - 1], cosines[row, free - 1]
        free -= 1
    if free <= last:
        ids[row, free], cosines[row, free] = new, value


@compiled
def _cut(ids: Int64Matrix, cosines: Float32Matrix, best_ids: Int64Matrix, best_cosines: Float32Matrix) -> None:
    for row in range(ids.shape[0]):
        for c in range(ids.shape[1]):
            if ids[row, c] >= 0:
                place(best_ids, best_cosines, row, ids[row, c], cosines[row, c])


@compiled
def _merge(
    left_ids: Int64Matrix,
    left_cosines: Float32Matrix,
    right_ids: Int64Matrix,
    right_cosines: Float32Matrix,
    best_ids: Int64Matrix,
    best_cosines: Float32Matrix,
) -> None:
    """Merge two sorted lists a row. An id that is in both has the same rank in both orders, so the
    two meet."""
    for row in range(best_ids.shape[0]):
        a, b = 0, 0
        for c in range(best_ids.shape[1]):
            left = a < left_ids.shape[1] and left_ids[row, a] >= 0
            right = b < right_ids.shape[1] and right_ids[row, b] >= 0
            if left and right:
                p, q = left_ids[row, a], right_ids[row, b]
                x, y = left_cosines[row, a], right_cosines[row, b]
                left, right = x > y or (x == y and p <= q), y > x or (x == y and q <= p)
            if left:
                best_ids[row, c], best_cosines[row, c] = left_ids[row, a], left_cosines[row, a]
                a += 1
            elif right:
                best_ids[row, c], best_cosines[row, c] = right_ids[row, b], right_cosines[row, b]
            if right:
                b += 1


def _plain(ids: NDArray[np.int64], cosines: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The arrays as the kernels take them: contiguous and writable; copied only where they are
    not."""
    return np.require(ids, np.int64, ["C", "W"]), np.require(cosines, np.float32, ["C", "W"])


def cut(ids: NDArray[np.int64], cosines: NDArray[np.float32], k: int) -> Neighbours:
    """The first k of each row by (cosine descending, id), ids -1 left out; rows shorter than k are
    filled up.

    `ids` (n, c) int64 and `cosines` (n, c) float32, in any order.
    """
    found = no_neighbours(len(ids), k)
    _cut(*_plain(ids, cosines), *found)
    return found


def merge(left: Neighbours, right: Neighbours, k: int) -> Neighbours:
    """The k nearest of two lists a row, each sorted as `Neighbours` are. An id that is in both,
    with the same cosine, is kept once. Associative and commutative, so any order of shards gives
    the same."""
    found = no_neighbours(len(left.ids), k)
    _merge(*_plain(*left), *_plain(*right), *found)
    return found


def add_lists(lists: Neighbours, rows: NDArray[np.int64], more: Neighbours, k: int) -> None:
    """Merge lists of some `rows` into those of all."""
    merged = merge(Neighbours(lists.ids[rows], lists.cosines[rows]), more, k)
    lists.ids[rows], lists.cosines[rows] = merged.ids, merged.cosines


def ordered(bits: NDArray[np.int32], flip: np.int32) -> NDArray[np.int32]:
    """With `flip` FLOATS the bits of float32 as whole numbers in the same order, and back; with
    INTEGERS as they are."""
    return bits ^ ((bits >> 31) & flip)


def empty_keys(rows: int, count: int) -> NDArray[np.int64]:
    """Lists (rows, count) in which nothing was seen yet."""
    return np.full((rows, count), EMPTY, np.int64)


def positions(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions in keys; -1 for EMPTY."""
    return np.where(keys == EMPTY, -1, _POSITIONS - 1 - (keys & (_POSITIONS - 1)))


def similarities(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The similarities in keys, as whole numbers."""
    return keys >> 32


def float_similarities(keys: NDArray[np.int64]) -> NDArray[np.float32]:
    """The float32 similarities in keys; -inf for EMPTY."""
    found = ordered((keys >> 32).astype(np.int32), FLOATS).view(np.float32)
    return np.where(keys == EMPTY, np.float32(-np.inf), found)


def keys_of(values: NDArray[np.float32], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keys of float32 similarities `values` and the positions that were `found`; EMPTY where a
    position is negative."""
    bits = ordered(np.ascontiguousarray(values).view(np.int32), FLOATS).astype(np.int64)
    return np.where(found < 0, EMPTY, (bits << 32) | (_POSITIONS - 1 - found))


@compiled
def insert(keys: Int64Matrix, row: int, similarity: Integer, position: Integer) -> np.int32:
    """Add an entry to the list of `row`; returns the similarity of its last entry. An entry that is
    there already is not added again.

    Through a short list the entry sinks without branches, since its rank cannot be predicted.
    """
    last = keys.shape[1] - 1
    new = (np.int64(similarity) << 32) | (np.int64(0xFFFFFFFF) - position)
    if last < _SHORT:
        for c in range(last + 1):
            here = keys[row, c]
            keys[row, c] = max(here, new)
            new = _EMPTY if here == new else min(here, new)
        return np.int32(keys[row, last] >> 32)
    fallen, rank = keys[row, last], last
    if new <= fallen:
        return np.int32(fallen >> 32)
    while rank > 0 and keys[row, rank - 1] < new:
        keys[row, rank] = keys[row, rank - 1]
        rank -= 1
    keys[row, rank] = new
    if rank > 0 and keys[row, rank - 1] == new:
        for c in range(rank, last):
            keys[row, c] = keys[row, c + 1]
        keys[row, last] = fallen
    return np.int32(keys[row, last] >> 32)


@compiled
def mark(bits: Int32Vector, flip: Integer, limit: Integer, limits: Int32Vector, flags: UInt8Vector) -> None:
    """Flag the entries that reach the limit of their row or that of their column: a loop without
    branches, which the compiler vectorises."""
    for j in range(bits.shape[0]):
        value = np.int32(bits[j] ^ ((bits[j] >> 31) & flip))
        flags[j] = np.uint8((value >= limit) | (value >= limits[j]))


@compiled
def flags_for(columns: int) -> UInt8Vector:
    """One flag a column, rounded up to whole words; those beyond the last column are never set."""
    return np.zeros((columns + 7) // 8 * 8, np.uint8)


@compiled
def _limits(keys: Int64Matrix, beyond: Integer) -> Int32Vector:
    """The least similarities that the lists still look at."""
    limits = np.empty(keys.shape[0], np.int32)
    for j in range(keys.shape[0]):
        limits[j] = np.int32((keys[j, keys.shape[1] - 1] >> 32) + beyond)
    return limits


@compiled
def _raise_to(best: Int32Vector, bits: Int32Vector, flip: Integer) -> None:
    for j in range(best.shape[0]):
        best[j] = max(best[j], np.int32(bits[j] ^ ((bits[j] >> 31) & flip)))


@compiled
def _prime_columns(tile: Int32Matrix, flip: Integer, keys: Int64Matrix, limits: Int32Vector) -> None:
    """Raise the limits of lists that are not full yet: the rows are divided into as many groups as
    a list has entries, and the smallest of the maxima of a column in them is reached by that many.
    Only what reaches it has to be looked at."""
    rows, columns, count = tile.shape[0], tile.shape[1], keys.shape[1]
    best, smallest = np.empty(columns, np.int32), np.full(columns, np.iinfo(np.int32).max, np.int32)
    for group in range(count):
        best[:] = np.iinfo(np.int32).min
        for i in range(rows * group // count, rows * (group + 1) // count):
            _raise_to(best, tile[i], flip)
        for j in range(columns):
            smallest[j] = min(smallest[j], best[j])
    for j in range(columns):
        if keys[j, count - 1] == EMPTY:
            limits[j] = smallest[j]


@compiled
def _primed(bits: Int32Vector, flip: Integer, count: int, best: Int32Vector) -> np.int32:
    """The same for a row; its groups are made of every w-th entry, so that their maxima are taken
    in vector registers. `best` (w,) is working space."""
    width = best.shape[0]
    best[:] = np.iinfo(np.int32).min
    for group in range(count):
        _raise_to(best, bits[group * width : (group + 1) * width], flip)
    smallest = np.int32(np.iinfo(np.int32).max)
    for group in range(count):
        largest = np.int32(np.iinfo(np.int32).min)
        for j in range(width * group // count, width * (group + 1) // count):
            largest = max(largest, best[j])
        smallest = min(smallest, largest)
    return smallest


@compiled
def update(
    tile: Int32Matrix,
    flip: Integer,
    beyond: Integer,
    rows: Int64Vector,
    columns: Int64Vector,
    row_keys: Int64Matrix,
    column_keys: Int64Matrix,
) -> None:
    """Add a tile of similarities to the lists of its rows and of its columns.

    `tile` (r, c): whole numbers, or the bits of float32 (`flip`, see `ordered`); `rows` (r,) and
    `columns` (c,) are the positions of its rows and columns, `row_keys` (r, count) and
    `column_keys` (c, count) their lists. With `beyond` 1 entries as similar as the last of a full
    list are left out, whatever their position; with 0 they are not.
    """
    width, count = tile.shape[1], row_keys.shape[1]
    limits = _limits(column_keys, beyond)
    if tile.shape[0] >= column_keys.shape[1] and np.any(column_keys[:, column_keys.shape[1] - 1] == EMPTY):
        _prime_columns(tile, flip, column_keys, limits)
    best = np.empty(width // count, np.int32)
    flags = flags_for(width)
    words = flags.view(np.uint64)
    for i in range(tile.shape[0]):
        bits = tile[i]
        limit = np.int32((row_keys[i, count - 1] >> 32) + beyond)
        if row_keys[i, count - 1] == EMPTY and best.shape[0] >= count:
            limit = _primed(bits, flip, count, best)
        mark(bits, flip, limit, limits, flags)
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, width)):
                value = np.int32(bits[j] ^ ((bits[j] >> 31) & flip))
                if value >= limit:
                    limit = max(limit, np.int32(insert(row_keys, i, value, columns[j]) + beyond))
                if value >= limits[j]:
                    limits[j] = max(limits[j], np.int32(insert(column_keys, j, value, rows[i]) + beyond))


@compiled
def update_rows(tile: Int32Matrix, first: int, keys: Int64Matrix) -> None:
    """Add a tile (r, c) of whole numbers to the lists (r, count) of its rows alone; its columns are
    positions from `first` on."""
    width, last = tile.shape[1], keys.shape[1] - 1
    limits = np.full(width, np.iinfo(np.int32).max, np.int32)
    flags = flags_for(width)
    words = flags.view(np.uint64)
    for i in range(tile.shape[0]):
        limit = np.int32(keys[i, last] >> 32)
        mark(tile[i], np.int32(0), limit, limits, flags)
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, width)):
                if tile[i, j] >= limit:
                    limit = insert(keys, i, tile[i, j], first + j)


@compiled
def merge_keys(keys: Int64Matrix, other: Int64Matrix, start: int, stop: int) -> None:
    """Add the lists `other` to the lists `keys`, for rows `start` to `stop`."""
    for row in range(start, stop):
        for c in range(other.shape[1]):
            key = other[row, c]
            if key <= keys[row, keys.shape[1] - 1]:
                break
            insert(keys, row, key >> 32, np.int64(0xFFFFFFFF) - (key & 0xFFFFFFFF))
