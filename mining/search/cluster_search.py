"""Approximate search by clusters: how many, which rows are sampled, where each row belongs, and all
of it in memory.

A pipeline takes the same steps over shards: train on a sample chosen by row number, assign shard by
shard, join group by group, merge the lists of each row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled
from mining.search.cluster_join import Members, join_group
from mining.search.clusters import ROWS_PER_CLUSTER, Clusters, nearest_clusters, train_clusters, transformed
from mining.search.neighbours import Neighbours, merge, no_neighbours
from mining.search.quantised import quantise
from mining.search.shards import VectorShard

#: Nearest clusters a row is a member of.
NEAREST = 10
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
    """How two sides are divided: `clusters` in `groups`, each row in its `nearest`; `sample` rows a
    side to train on, and at most `largest` members of a side compared with each other within a
    cluster."""

    clusters: int
    groups: int
    nearest: int
    sample: int
    largest: int


def group_rows(k: int) -> int:
    """Rows of a side in a group, about, where lists of `k` neighbours are kept."""
    return GROUP_ROWS * _GROUP_NEIGHBOURS // max(k, _GROUP_NEIGHBOURS)


def divide(
    source_rows: int, target_rows: int, clusters: int | None = None, nearest: int = NEAREST, k: int = 1
) -> Division:
    """The division for two sides with so many valid rows and lists of `k` neighbours; `clusters`
    None chooses their number."""
    rows = max(source_rows, target_rows, 1)
    # Square roots are rounded alike everywhere, powers are not.
    root = math.sqrt(math.sqrt(max(source_rows, 1) * max(target_rows, 1)))
    count = min(clusters or max(1, round(CLUSTERS_PER_ROOT * root)), rows)
    groups = min(count, -(-round(GROUPS_PER_ROW * rows) // group_rows(k)))
    largest = max(1024, _LARGEST * min(nearest, count) * rows // count)
    return Division(count, groups, min(nearest, count), -(-ROWS_PER_CLUSTER * count // 2), largest)


def sample_places(rows: int, count: int) -> NDArray[np.int64]:
    """At most `count` of the numbers below `rows`, evenly spaced."""
    count = min(count, rows)
    return np.arange(count) * rows // max(count, 1)


def train(source: NDArray[np.float32], target: NDArray[np.float32], division: Division) -> Clusters:
    """Clusters from unit rows sampled from both sides."""
    return train_clusters(quantise(source), quantise(target), division.clusters, division.groups)


def assign(vectors: NDArray[np.float32], clusters: Clusters, side: int, nearest: int) -> NDArray[np.int32]:
    """The clusters (n, nearest) of unit rows (n, d) of the source (`side` 0) or the target (1)."""
    rows = transformed(quantise(vectors), clusters.transform, clusters.centres[side])
    return nearest_clusters(rows, clusters.centroids, nearest).astype(np.int32)


@compiled
def _count_groups(clusters, groups, last_row, limits):  # type: ignore[no-untyped-def]
    for i in range(clusters.shape[0]):
        for j in range(clusters.shape[1]):
            group = groups[clusters[i, j]]
            if last_row[group] != i:
                last_row[group] = i
                limits[group + 1] += 1
    for g in range(1, limits.shape[0]):
        limits[g] += limits[g - 1]


@compiled
def _place_rows(clusters, groups, last_row, ends, rows, kept):  # type: ignore[no-untyped-def]
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
    _place_rows(clusters, groups, np.full(count, -1, np.int64), limits[:-1].copy(), rows, kept)
    return Partition(limits, rows, kept)


def add_lists(lists: Neighbours, rows: NDArray[np.int64], more: Neighbours, k: int) -> None:
    """Merge lists of some `rows` into those of all."""
    merged = merge(Neighbours(lists.ids[rows], lists.cosines[rows]), more, k)
    lists.ids[rows], lists.cosines[rows] = merged.ids, merged.cosines


def search_clusters(
    source: VectorShard, target: VectorShard, k: int, clusters: int | None = None, nearest: int = NEAREST
) -> tuple[Neighbours, Neighbours]:
    """Neighbours among the rows that share a cluster: forward (n, k) for all source rows, backward
    (m, k) for all target rows; ids are row numbers. Threads are those of torch."""
    sides = source, target
    sizes = len(source.vectors), len(target.vectors)
    lists = [no_neighbours(len(side.valid), k) for side in sides]
    if min(sizes) == 0:
        return lists[0], lists[1]
    division = divide(sizes[0], sizes[1], clusters, nearest, k)
    samples = [side.vectors[sample_places(len(side.vectors), division.sample)] for side in sides]
    trained = train(samples[0], samples[1], division)
    parts = [
        partition(assign(side.vectors, trained, number, division.nearest), trained.groups)
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
