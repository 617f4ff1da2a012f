"""Joining two sides cluster by cluster: near rows share a cluster, and only rows that share one are
compared.

Each row is a member of its few nearest clusters. Within a cluster the members of both sides are
multiplied once, and the tile feeds the lists of its rows and of its columns. The lists of a group
of clusters are the `k + extra` most similar rows of the other side, by quantised similarity and
row; of these the cosines are recomputed from the stored vectors, and the k nearest by (cosine
descending, row) stay. Nothing in that depends on tiles, threads or shards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges
from mining.devices import on_single_threads
from mining.search.key_lists import empty_lists, merge_keys, positions, similarities, update
from mining.search.neighbours import Neighbours, cut, no_neighbours
from mining.search.quantised import product, quantise, scale
from mining.search.vectors import exact_cosines

#: Entries whose quantised similarity is this many standard deviations of its rounding below that of
#: the k-th are not recomputed. Rounding two vectors moves their similarity by 0.4 / scale: 0.001 at
#: 300 dimensions.
WINDOW = 8.0
_DEVIATION = 1 / math.sqrt(6)
#: Entries proposed beyond k. On BUCC 4 and 12 gave the same lists.
EXTRA = 4
_TILE = 1024
_MERGED = 4096

Places: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = NDArray[np.int64]


class Members(NamedTuple):
    """The rows of one side that have a cluster in a group.

    `rows` (n,) int64 ascending row numbers, `vectors` (n, d) float32 unit rows, `clusters` (n, p)
    int32: the clusters of each, -1 for those of other groups.
    """

    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]
    clusters: NDArray[np.int32]


@compiled
def _count_members(clusters, first, limits):  # type: ignore[no-untyped-def]
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            if clusters[i, j] >= 0:
                limits[clusters[i, j] - first + 1] += 1
    for c in range(1, limits.shape[0]):
        limits[c] += limits[c - 1]


@compiled
def _place_members(clusters, first, ends, members):  # type: ignore[no-untyped-def]
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            if clusters[i, j] >= 0:
                cluster = clusters[i, j] - first
                members[ends[cluster]] = i
                ends[cluster] += 1


def by_cluster(clusters: NDArray[np.int32], first: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The members of the clusters `first` to `stop`: their positions, cluster by cluster and
    ascending within, and where each cluster begins (stop - first + 1,)."""
    limits = np.zeros(stop - first + 1, np.int64)
    _count_members(clusters, first, limits)
    members = np.empty(limits[-1], np.int64)
    _place_members(clusters, first, limits.copy(), members)
    return members, limits


def _range(clusters: Sequence[NDArray[np.int32]]) -> tuple[int, int]:
    """The least cluster that is used, and one more than the last."""
    used = [part[part >= 0] for part in clusters]
    return min(int(part.min(initial=1 << 30)) for part in used), max(int(part.max(initial=-1)) for part in used) + 1


def _bands(ours: NDArray[np.int64], theirs: NDArray[np.int64], largest: int) -> list[tuple[Places, Places]]:
    """A cluster cut into bands of at most `largest` members a side, one of ours against one of
    theirs."""
    count = -(-max(len(ours), len(theirs)) // largest)
    return [
        (
            ours[len(ours) * band // count : len(ours) * (band + 1) // count],
            theirs[len(theirs) * band // count : len(theirs) * (band + 1) // count],
        )
        for band in range(count)
    ]


def _units(source: Members, target: Members, largest: int) -> list[tuple[Places, Places]]:
    """What is to be multiplied: positions of both sides that share a cluster. The largest first, so
    that threads end together."""
    first, stop = _range((source.clusters, target.clusters))
    (left, left_limits), (right, right_limits) = (
        by_cluster(side.clusters, first, max(stop, first)) for side in (source, target)
    )
    units = []
    for cluster in range(stop - first):
        ours = left[left_limits[cluster] : left_limits[cluster + 1]]
        theirs = right[right_limits[cluster] : right_limits[cluster + 1]]
        if len(ours) and len(theirs):
            units += _bands(ours, theirs, largest)
    return sorted(units, key=lambda unit: -len(unit[0]) * len(unit[1]))


def _propose(source: Members, target: Members, count: int, largest: int) -> tuple[Keys, Keys]:
    """Lists of keys for the rows of both sides."""
    rows, columns = quantise(source.vectors), quantise(target.vectors)
    multiply = product()
    lists = [(empty_lists(len(rows), count), empty_lists(len(columns), count))]

    def begin() -> Callable[[tuple[Places, Places]], None]:
        memory = np.empty(_TILE * _TILE, np.int32)
        mine = empty_lists(len(rows), count), empty_lists(len(columns), count)
        lists.append(mine)

        def join(unit: tuple[Places, Places]) -> None:
            ours, theirs = unit
            for t in range(0, len(theirs), _TILE):
                columns_here = theirs[t : t + _TILE]
                block = columns[columns_here]
                for s in range(0, len(ours), _TILE):
                    rows_here = ours[s : s + _TILE]
                    tile = memory[: len(rows_here) * len(block)].reshape(len(rows_here), len(block))
                    multiply(rows[rows_here], block, tile)
                    update(tile, rows_here, columns_here, *mine)

        return join

    on_single_threads(_units(source, target, largest), begin)
    for other in lists[1:]:
        for keys, more in zip(lists[0], other, strict=True):
            in_ranges(functools.partial(merge_keys, keys, more), len(keys), torch.get_num_threads(), _MERGED)
    return lists[0]


def _settle(queries: Members, base: Members, keys: Keys, k: int) -> Neighbours:
    """The k nearest of the proposed, by cosines recomputed; ids are row numbers."""
    if len(base.rows) == 0:
        return no_neighbours(len(queries.rows), k)
    places, near = positions(keys), similarities(keys)
    window = int(WINDOW * _DEVIATION * float(scale(queries.vectors.shape[1])))
    wanted = (places >= 0) & (near >= near[:, [min(k, keys.shape[1]) - 1]] - window)
    cosines = np.full(places.shape, -np.inf, np.float32)
    rows, columns = np.nonzero(wanted)
    cosines[rows, columns] = exact_cosines(queries.vectors, base.vectors, rows, places[rows, columns])
    # Rows ascend with positions, so ties are cut the same way.
    found = cut(np.where(wanted, places, -1), cosines, k)
    return Neighbours(np.where(found.ids >= 0, base.rows[found.ids], -1), found.cosines)


def join_group(
    source: Members, target: Members, k: int, largest: int = 1 << 20, extra: int = EXTRA
) -> tuple[Neighbours, Neighbours]:
    """Neighbours among the rows that share a cluster of the group: forward (n, k) and backward (m,
    k) lists of row numbers.

    A cluster with more than `largest` members of a side is cut into bands, of which the first is
    compared with the first of the other side only, the second with the second: thousands of equal
    vectors do not become millions of comparisons. Threads are those of torch.
    """
    forward, backward = _propose(source, target, k + extra, largest)
    return _settle(source, target, forward, k), _settle(target, source, backward, k)
