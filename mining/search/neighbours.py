"""Lists of nearest neighbours, and merging partial lists so that the number of shards never shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_NEIGHBOUR = -1


class Neighbours(NamedTuple):
    """The nearest neighbours of n rows: `ids` (n, k) int64 and `cosines` (n, k) float32, by (cosine descending, id).

    A list that is shorter than k ends in id -1 and cosine -inf.
    """

    ids: NDArray[np.int64]
    cosines: NDArray[np.float32]


def no_neighbours(rows: int, k: int) -> Neighbours:
    """Empty lists of length k for `rows` rows."""
    return Neighbours(np.full((rows, k), NO_NEIGHBOUR, np.int64), np.full((rows, k), -np.inf, np.float32))


def cut(ids: NDArray[np.int64], cosines: NDArray[np.float32], k: int) -> Neighbours:
    """The first k of each row by (cosine descending, id); rows shorter than k are filled up."""
    if ids.shape[1] < k:
        fill = no_neighbours(len(ids), k - ids.shape[1])
        ids, cosines = np.hstack([ids, fill.ids]), np.hstack([cosines, fill.cosines])
    order = np.lexsort((ids, -cosines), axis=1)[:, :k]
    return Neighbours(np.take_along_axis(ids, order, axis=1), np.take_along_axis(cosines, order, axis=1))


def merge(left: Neighbours, right: Neighbours, k: int) -> Neighbours:
    """The k nearest of two lists over disjoint ids. Associative and commutative, so any order of shards gives the
    same."""
    return cut(np.hstack([left.ids, right.ids]), np.hstack([left.cosines, right.cosines]), k)
