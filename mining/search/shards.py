"""Searching shards against shards: row numbers instead of positions, invalid rows left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.search.exact import nearest_neighbours
from mining.search.neighbours import Neighbours, no_neighbours
from mining.search.proposals import Proposer
from mining.search.vectors import from_stored


class VectorShard(NamedTuple):
    """The searchable part of a shard of n rows that starts at row number `first`.

    `valid` (n,) bool; `vectors` (valid rows, d) float32 unit rows, in order.
    """

    first: int
    valid: NDArray[np.bool_]
    vectors: NDArray[np.float32]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row numbers of the valid rows."""
        return np.flatnonzero(self.valid) + self.first


def vector_shard(first: int, valid: NDArray[np.bool_], stored: NDArray[np.float16]) -> VectorShard:
    """A shard from stored float16 vectors (n, d) and their validity (n,)."""
    return VectorShard(first, valid, from_stored(stored[valid]))


def spread(found: Neighbours, queries: VectorShard, base: VectorShard, k: int) -> Neighbours:
    """Lists over the valid rows of both shards as lists over all rows of `queries`, ids being row
    numbers of `base`."""
    rows = base.rows
    lists = no_neighbours(len(queries.valid), k)
    if len(rows):
        lists.ids[queries.valid] = np.where(found.ids >= 0, rows[found.ids], -1)
    lists.cosines[queries.valid] = found.cosines
    return lists


def search_shards(
    source: VectorShard, target: VectorShard, k: int, propose: Proposer | None = None
) -> tuple[Neighbours, Neighbours]:
    """Exact neighbours between two shards: forward (n, k) for all source rows, backward (m, k) for
    all target rows."""
    forward, backward = nearest_neighbours(source.vectors, target.vectors, k, propose)
    return spread(forward, source, target, k), spread(backward, target, source, k)
