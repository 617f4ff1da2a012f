"""Lists of nearest neighbours, and merging partial lists so that the number of shards never
shows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled

NO_NEIGHBOUR = -1


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
def place(ids: Any, cosines: Any, row: Any, new: Any, value: Any) -> None:
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
def _cut(ids: Any, cosines: Any, best_ids: Any, best_cosines: Any) -> None:
    for row in range(ids.shape[0]):
        for c in range(ids.shape[1]):
            if ids[row, c] >= 0:
                place(best_ids, best_cosines, row, ids[row, c], cosines[row, c])


@compiled
def _merge(
    left_ids: Any, left_cosines: Any, right_ids: Any, right_cosines: Any, best_ids: Any, best_cosines: Any
) -> None:
    """Merge two sorted lists a row. An id that is in both stands at the same place of both orders,
    so the two meet."""
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
