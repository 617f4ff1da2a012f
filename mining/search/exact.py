"""Exact nearest neighbours in both directions.

The proposals of a tile pass are approximate in the last bits. Each list is therefore recomputed by `exact_cosines` and
certified: everything outside the proposal is below its last entry plus the rounding error. Where that does not separate
the k-th neighbour from the rest (many equal vectors, say), the row is searched again, keeping everything near its
limit. The result is the k nearest by (cosine descending, id), whatever the tile, library or device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mining.search.neighbours import Neighbours, cut, merge, no_neighbours
from mining.search.tiles import Proposal, Proposer, TorchProposer
from mining.search.vectors import exact_cosines

#: Bound on the error of a float32 inner product of unit rows, whatever the order of summation. Errors add up like a
#: random walk: about sqrt(d) roundings of 2^-24, which is 2e-6 at 1,024 dimensions; ten times that leaves room.
ROUNDING = 2e-5
#: How many more than k are proposed, so that a near tie at the k-th place is seen and settled without a second search.
EXTRA = 4
_QUERIES = 256
_BASE = 16_384


def reference_neighbours(queries: NDArray[np.float32], base: NDArray[np.float32], k: int) -> Neighbours:
    """All pairs, no tiles: what the fast search must equal. For tests and small inputs."""
    n, m = len(queries), len(base)
    left, right = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    cosines = exact_cosines(queries, base, left, right).reshape(n, m)
    return cut(right.reshape(n, m).astype(np.int64), cosines, k)


def _settle(queries: NDArray[np.float32], base: NDArray[np.float32], proposal: Proposal, k: int) -> Neighbours:
    """The exact k nearest from a proposal of more than k."""
    places, similarities = proposal
    count = places.shape[1]
    if count == 0:
        return no_neighbours(len(queries), k)
    limit = similarities[:, min(k, count) - 1] - 2 * ROUNDING
    near = (places >= 0) & (similarities >= limit[:, None])
    cosines = np.full(places.shape, -np.inf, dtype=np.float32)
    rows, columns = np.nonzero(near)
    cosines[rows, columns] = exact_cosines(queries, base, rows, places[rows, columns])
    found = cut(np.where(near, places, -1), cosines, k)
    # If the last proposed entry is still near the limit, entries that were not proposed may be as near.
    open_rows = np.flatnonzero(near[:, -1]) if count < len(base) else np.empty(0, np.int64)
    for start in range(0, len(open_rows), _QUERIES):
        rows = open_rows[start : start + _QUERIES]
        again = _search_near(queries[rows], base, found.cosines[rows, k - 1], k)
        found.ids[rows], found.cosines[rows] = again.ids, again.cosines
    return found


def _search_near(
    queries: NDArray[np.float32], base: NDArray[np.float32], floor: NDArray[np.float32], k: int
) -> Neighbours:
    """The k nearest of a few queries whose k-th nearest is known to be at least `floor`: everything near it is
    recomputed."""
    found = no_neighbours(len(queries), k)
    for start in range(0, len(base), _BASE):
        block = base[start : start + _BASE]
        rows, columns = np.nonzero(queries @ block.T >= floor[:, None] - ROUNDING)
        if len(rows) == 0:
            continue
        cosines = exact_cosines(queries, block, rows, columns)
        # Equal rows in a run: keep the first k of each query by (cosine descending, column).
        order = np.lexsort((columns, -cosines, rows))
        rows, columns, cosines = rows[order], columns[order], cosines[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        keep = rank < k
        part = no_neighbours(len(queries), k)
        part.ids[rows[keep], rank[keep]] = columns[keep] + start
        part.cosines[rows[keep], rank[keep]] = cosines[keep]
        found = merge(found, part, k)
    return found


def _check_dimensions(left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise ValueError(f"vectors of different dimension: {left.shape} and {right.shape}")


def nearest_neighbours(
    source: NDArray[np.float32], target: NDArray[np.float32], k: int, propose: Proposer | None = None
) -> tuple[Neighbours, Neighbours]:
    """The k nearest target rows of each source row, and the k nearest source rows of each target row.

    `source` (n, d) and `target` (m, d) are float32 C-contiguous unit rows without invalid (zero) ones. `propose` is the
    tile pass, by default torch on CPU. Returns forward (n, k) and backward (m, k) lists of positions. Raises ValueError
    if the dimensions differ.
    """
    _check_dimensions(source, target)
    if len(source) == 0 or len(target) == 0:
        return no_neighbours(len(source), k), no_neighbours(len(target), k)
    forward, backward = (propose or TorchProposer())(source, target, k + EXTRA)
    return _settle(source, target, forward, k), _settle(target, source, backward, k)


def knn(queries: NDArray[np.float32], base: NDArray[np.float32], k: int, propose: Proposer | None = None) -> Neighbours:
    """The k nearest rows of `base` for each of `queries`: one direction of `nearest_neighbours`."""
    _check_dimensions(queries, base)
    if len(queries) == 0 or len(base) == 0:
        return no_neighbours(len(queries), k)
    forward, _ = (propose or TorchProposer())(queries, base, k + EXTRA)
    return _settle(queries, base, forward, k)
