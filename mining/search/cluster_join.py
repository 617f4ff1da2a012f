"""Joining two sides cluster by cluster: near rows share a cluster, and only rows that share one are
compared.

Each row is a member of its few nearest clusters. Within a cluster the members of both sides are
multiplied once, and the tile feeds the lists of its rows and of its columns. The lists of a group
of clusters are the `k + extra` most similar rows of the other side, by quantised similarity and
row; of these the cosines are recomputed from the stored vectors, and the k nearest by (cosine
descending, row) stay. Nothing in that depends on tiles, threads or shards.

A pipeline takes the same steps over shards as `search_clusters` in memory: train on a sample chosen
by row number, assign shard by shard, join group by group, merge the lists of each row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import Int32Matrix, Int32Vector, Int64Matrix, Int64Vector, compiled, in_ranges
from mining.devices import on_single_threads
from mining.search.clusters import ROWS_PER_CLUSTER, Clusters, nearest_clusters, train_clusters, transformed
from mining.search.topk import (
    Neighbours,
    add_lists,
    cut,
    empty_keys,
    merge_keys,
    no_neighbours,
    positions,
    similarities,
    update,
)
from mining.search.vectors import VectorShard, exact_cosines, product, quantise, scale

#: Entries whose quantised similarity is this many standard deviations of its rounding below that of
#: the k-th are not recomputed. Rounding two vectors moves their similarity by 0.4 / scale: 0.001 at
#: 300 dimensions.
WINDOW = 8.0
_DEVIATION = 1 / math.sqrt(6)
#: Entries proposed beyond k. On BUCC 4 and 12 gave the same lists.
EXTRA = 4
_TILE = 1024
_MERGED = 4096

Rows: TypeAlias = NDArray[np.int64]
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
def _count_members(clusters: Int32Matrix, first: int, limits: Int64Vector) -> None:
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            if clusters[i, j] >= 0:
                limits[clusters[i, j] - first + 1] += 1
    for c in range(1, limits.shape[0]):
        limits[c] += limits[c - 1]


@compiled
def _list_members(clusters: Int32Matrix, first: int, ends: Int64Vector, members: Int64Vector) -> None:
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
    _list_members(clusters, first, limits.copy(), members)
    return members, limits


def _range(clusters: Sequence[NDArray[np.int32]]) -> tuple[int, int]:
    """The least cluster that is used, and one more than the last."""
    used = [part[part >= 0] for part in clusters]
    return min(int(part.min(initial=1 << 30)) for part in used), max(int(part.max(initial=-1)) for part in used) + 1


def _bands(ours: NDArray[np.int64], theirs: NDArray[np.int64], largest: int) -> list[tuple[Rows, Rows]]:
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


def _blocks(source: Members, target: Members, largest: int) -> list[tuple[Rows, Rows]]:
    """What is to be multiplied: positions of both sides that share a cluster. The largest first, so
    that threads end together."""
    first, stop = _range((source.clusters, target.clusters))
    (left, left_limits), (right, right_limits) = (
        by_cluster(side.clusters, first, max(stop, first)) for side in (source, target)
    )
    blocks = []
    for cluster in range(stop - first):
        ours = left[left_limits[cluster] : left_limits[cluster + 1]]
        theirs = right[right_limits[cluster] : right_limits[cluster + 1]]
        if len(ours) and len(theirs):
            blocks += _bands(ours, theirs, largest)
    return sorted(blocks, key=lambda unit: -len(unit[0]) * len(unit[1]))


@compiled
def _update(
    tile: Int32Matrix, rows: Int64Vector, columns: Int64Vector, row_keys: Int64Matrix, column_keys: Int64Matrix
) -> None:
    """Add a tile to the lists of all rows and columns, of which it has some. Side by side the lists
    stay in the cache."""
    ours, theirs = row_keys[rows], column_keys[columns]
    update(tile, np.int32(0), 0, rows, columns, ours, theirs)
    row_keys[rows], column_keys[columns] = ours, theirs


def _propose(source: Members, target: Members, count: int, largest: int) -> tuple[Keys, Keys]:
    """Lists of keys for the rows of both sides."""
    rows, columns = quantise(source.vectors), quantise(target.vectors)
    multiply = product()
    lists = [(empty_keys(len(rows), count), empty_keys(len(columns), count))]

    def begin() -> Callable[[tuple[Rows, Rows]], None]:
        memory = np.empty(_TILE * _TILE, np.int32)
        mine = empty_keys(len(rows), count), empty_keys(len(columns), count)
        lists.append(mine)

        def join(unit: tuple[Rows, Rows]) -> None:
            ours, theirs = unit
            for t in range(0, len(theirs), _TILE):
                columns_here = theirs[t : t + _TILE]
                block = columns[columns_here]
                for s in range(0, len(ours), _TILE):
                    rows_here = ours[s : s + _TILE]
                    tile = memory[: len(rows_here) * len(block)].reshape(len(rows_here), len(block))
                    multiply(rows[rows_here], block, tile)
                    _update(tile, rows_here, columns_here, *mine)

        return join

    on_single_threads(_blocks(source, target, largest), begin)
    for other in lists[1:]:
        for keys, more in zip(lists[0], other, strict=True):
            in_ranges(functools.partial(merge_keys, keys, more), len(keys), torch.get_num_threads(), _MERGED)
    return lists[0]


def _settle(queries: Members, base: Members, keys: Keys, k: int) -> Neighbours:
    """The k nearest of the proposed, by cosines recomputed; ids are row numbers."""
    if len(base.rows) == 0:
        return no_neighbours(len(queries.rows), k)
    proposed, near = positions(keys), similarities(keys)
    window = int(WINDOW * _DEVIATION * float(scale(queries.vectors.shape[1])))
    wanted = (proposed >= 0) & (near >= near[:, [min(k, keys.shape[1]) - 1]] - window)
    cosines = np.full(proposed.shape, -np.inf, np.float32)
    rows, columns = np.nonzero(wanted)
    cosines[rows, columns] = exact_cosines(queries.vectors, base.vectors, rows, proposed[rows, columns])
    # Rows ascend with positions, so ties are cut the same way.
    found = cut(np.where(wanted, proposed, -1), cosines, k)
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


#: Clusters for rows: the assignment costs rows x clusters, the join rows x rows / clusters; the
#: root balances them.
CLUSTERS_PER_ROOT = 8.0
#: Rows of a side in a group of clusters, about; each row is in 3 to 4 groups.
GROUP_ROWS = 150_000
GROUPS_PER_ROW = 3.5
#: With more neighbours than this, groups have fewer rows, so that their lists take no more memory.
_GROUP_NEIGHBOURS = 64
#: A cluster with so many times the mean number of members is joined in bands.
_LARGEST = 16


class Division(NamedTuple):
    """How two sides are divided: `nlist` clusters in `groups`, each row in its `nprobe` nearest;
    `sample` rows a side to train on, and at most `largest` members of a side compared with each
    other within a cluster."""

    nlist: int
    groups: int
    nprobe: int
    sample: int
    largest: int


def group_rows(k: int) -> int:
    """Rows of a side in a group, about, where lists of `k` neighbours are kept."""
    return GROUP_ROWS * _GROUP_NEIGHBOURS // max(k, _GROUP_NEIGHBOURS)


def divide(source_rows: int, target_rows: int, nlist: int | None, nprobe: int, k: int = 1) -> Division:
    """The division for two sides with so many valid rows and lists of `k` neighbours; `nlist` None
    chooses the number of clusters."""
    rows = max(source_rows, target_rows, 1)
    # Square roots are rounded alike everywhere, powers are not.
    root = math.sqrt(math.sqrt(max(source_rows, 1) * max(target_rows, 1)))
    count = min(nlist or max(1, round(CLUSTERS_PER_ROOT * root)), rows)
    groups = min(count, -(-round(GROUPS_PER_ROW * rows) // group_rows(k)))
    largest = max(1024, _LARGEST * min(nprobe, count) * rows // count)
    return Division(count, groups, min(nprobe, count), -(-ROWS_PER_CLUSTER * count // 2), largest)


def evenly_spaced(rows: int, count: int) -> NDArray[np.int64]:
    """At most `count` of the numbers below `rows`, evenly spaced."""
    count = min(count, rows)
    return np.arange(count) * rows // max(count, 1)


def train(source: NDArray[np.float32], target: NDArray[np.float32], division: Division) -> Clusters:
    """Clusters from unit rows sampled from both sides."""
    return train_clusters(quantise(source), quantise(target), division.nlist, division.groups)


def assign(vectors: NDArray[np.float32], clusters: Clusters, side: int, nearest: int) -> NDArray[np.int32]:
    """The clusters (n, nearest) of unit rows (n, d) of the source (`side` 0) or the target (1)."""
    rows = transformed(quantise(vectors), clusters.transform, clusters.centres[side])
    return nearest_clusters(rows, clusters.centroids, nearest).astype(np.int32)


@compiled
def _count_groups(clusters: Int32Matrix, groups: Int32Vector, last_row: Int64Vector, limits: Int64Vector) -> None:
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            group = groups[clusters[i, j]]
            if last_row[group] != i:
                last_row[group] = i
                limits[group + 1] += 1
    for g in range(1, limits.shape[0]):
        limits[g] += limits[g - 1]


@compiled
def _list_rows(
    clusters: Int32Matrix,
    groups: Int32Vector,
    last_row: Int64Vector,
    ends: Int64Vector,
    rows: Int64Vector,
    kept: Int32Matrix,
) -> None:
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            group = groups[clusters[i, j]]
            if last_row[group] != i:
                last_row[group] = i
                rows[ends[group]] = i
                ends[group] += 1
            kept[ends[group] - 1, j] = clusters[i, j]


class Partition(NamedTuple):
    """Rows dealt out to groups: those of group g stand from ``limits[g]`` to ``limits[g + 1]``.

    `rows` (N,) int64 positions, ascending within a group; `clusters` (N, p) int32, -1 for those of
    other groups.
    """

    limits: NDArray[np.int64]
    rows: NDArray[np.int64]
    clusters: NDArray[np.int32]


def partition(clusters: NDArray[np.int32], groups: NDArray[np.int32]) -> Partition:
    """Deal rows with `clusters` (n, p) out to the `groups` (K,) of these clusters."""
    count = int(groups.max(initial=-1)) + 1
    limits = np.zeros(count + 1, np.int64)
    _count_groups(clusters, groups, np.full(count, -1, np.int64), limits)
    rows = np.empty(limits[-1], np.int64)
    kept = np.full((limits[-1], clusters.shape[1]), -1, np.int32)
    _list_rows(clusters, groups, np.full(count, -1, np.int64), limits[:-1].copy(), rows, kept)
    return Partition(limits, rows, kept)


def search_clusters(
    source: VectorShard, target: VectorShard, k: int, nlist: int | None, nprobe: int
) -> tuple[Neighbours, Neighbours]:
    """Neighbours among the rows that share a cluster: forward (n, k) for all source rows, backward
    (m, k) for all target rows; ids are row numbers. Threads are those of torch."""
    sides = source, target
    sizes = len(source.vectors), len(target.vectors)
    lists = [no_neighbours(len(side.valid), k) for side in sides]
    if min(sizes) == 0:
        return lists[0], lists[1]
    division = divide(sizes[0], sizes[1], nlist, nprobe, k)
    samples = [side.vectors[evenly_spaced(len(side.vectors), division.sample)] for side in sides]
    trained = train(samples[0], samples[1], division)
    parts = [
        partition(assign(side.vectors, trained, number, division.nprobe), trained.groups)
        for number, side in enumerate(sides)
    ]
    for group in range(len(parts[0].limits) - 1):
        here = [slice(*part.limits[group : group + 2]) for part in parts]
        members = [
            Members(side.rows[part.rows[at]], side.vectors[part.rows[at]], part.clusters[at])
            for side, part, at in zip(sides, parts, here, strict=True)
        ]
        found = join_group(members[0], members[1], k, division.largest)
        for total, side, member, more in zip(lists, sides, members, found, strict=True):
            add_lists(total, member.rows - side.first, more, k)
    return lists[0], lists[1]
