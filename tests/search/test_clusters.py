import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.devices import torch_threads
from mining.search import cluster_join
from mining.search import clusters as clustering
from mining.search.cluster_join import (
    EXTRA,
    WINDOW,
    Division,
    Members,
    assign,
    by_cluster,
    divide,
    evenly_spaced,
    group_rows,
    join_group,
    partition,
    search_clusters,
    train,
)
from mining.search.clusters import nearest_clusters
from mining.search.exact import nearest_neighbours, reference_neighbours
from mining.search.topk import Neighbours, cut, merge, no_neighbours
from mining.search.vectors import VectorShard, exact_cosines, quantise, scale, to_stored, vector_shard
from tests.search.test_exact import same, unit_rows


def reference_join(source: Members, target: Members, k: int) -> tuple[Neighbours, Neighbours]:
    """Row by row: of all rows of the other side that share a cluster, the k + EXTRA best by
    quantised similarity, and of those not far below the k-th, the k nearest."""
    found = []
    for queries, base in ((source, target), (target, source)):
        near = quantise(queries.vectors).astype(np.int64) @ quantise(base.vectors).astype(np.int64).T
        lists = no_neighbours(len(queries.rows), k)
        for row in range(len(queries.rows)):
            own = set(queries.clusters[row].tolist()) - {-1}
            shared = [other for other in range(len(base.rows)) if own & set(base.clusters[other].tolist())]
            best = sorted(shared, key=lambda other: (-near[row, other], other))[: k + EXTRA]
            if len(best) >= k:
                window = int(WINDOW * 6**-0.5 * float(scale(queries.vectors.shape[1])))
                best = [other for other in best if near[row, other] >= near[row, best[k - 1]] - window]
            places = np.array(best, np.int64)
            cosines = exact_cosines(queries.vectors, base.vectors, np.full(len(best), row), places)
            one = cut(base.rows[places][None], cosines[None], k)
            lists.ids[row], lists.cosines[row] = one.ids[0], one.cosines[0]
        found.append(lists)
    return found[0], found[1]


def members(rows: int, clusters: int, seed: int, copies: int) -> Members:
    """Rows in 1 to 3 of so many clusters, with row numbers that skip some."""
    chance = np.random.default_rng(seed)
    belongs = np.full((rows, 3), -1, np.int32)
    for row in belongs:
        own = chance.permutation(clusters)[: chance.integers(1, 4)]
        row[chance.permutation(3)[: len(own)]] = own
    numbers = np.cumsum(chance.integers(1, 4, rows)).astype(np.int64)
    return Members(numbers, unit_rows(rows, 8, seed, copies), belongs + np.where(belongs >= 0, 5, 0).astype(np.int32))


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(0, 30),
    st.integers(0, 99),
)
def test_join_equals_the_reference(n, m, clusters, k, copies, seed):
    source = members(n, clusters, seed, min(copies, n - n // 2))
    target = members(m, clusters, seed + 1, min(copies, m - m // 2))
    target.vectors[-1] = source.vectors[0]
    expected = reference_join(source, target, k)
    for threads in (1, 2):
        with torch_threads(threads):
            forward, backward = join_group(source, target, k)
        assert same(forward, expected[0])
        assert same(backward, expected[1])


def test_one_side_without_rows():
    full, empty = (
        members(5, 2, 1, 0),
        Members(np.empty(0, np.int64), np.empty((0, 8), np.float32), np.empty((0, 3), np.int32)),
    )
    forward, backward = join_group(full, empty, 2)
    assert forward.ids.tolist() == [[-1, -1]] * 5
    assert backward.ids.shape == (0, 2)


def test_a_cluster_that_is_too_large_is_joined_in_bands():
    vectors = np.repeat(unit_rows(1, 8, 3), 5000, axis=0)
    side = Members(np.arange(5000), vectors, np.zeros((5000, 1), np.int32))
    forward, backward = join_group(side, side, 4, largest=1000)
    assert forward.ids[[0, 999, 1000, 4999]].tolist() == [[b, b + 1, b + 2, b + 3] for b in (0, 0, 1000, 4000)]
    assert same(forward, backward)


def test_bands_of_sides_of_different_size():
    bands = cluster_join._bands(np.arange(5), 10 + np.arange(3), 2)
    assert [(ours.tolist(), theirs.tolist()) for ours, theirs in bands] == [
        ([0], [10]),
        ([1, 2], [11]),
        ([3, 4], [12]),
    ]
    whole = cluster_join._bands(np.arange(5), np.arange(3), 5)
    assert [(ours.tolist(), theirs.tolist()) for ours, theirs in whole] == [([0, 1, 2, 3, 4], [0, 1, 2])]


def test_sizes_of_blocks_and_tiles_never_show(monkeypatch):
    def search() -> list[bytes]:
        source, target, clusters = trained(rows=90)
        sides = [
            Members(np.arange(90), rows, assign(rows, clusters, side, 4)) for side, rows in enumerate((source, target))
        ]
        found = join_group(sides[0], sides[1], 3)
        return [part.tobytes() for part in (*clusters, *found[0], *found[1])]

    expected = search()
    for module, name, size in (
        (clustering, "_BLOCK", 7),
        (clustering, "_ROWS", 7),
        (clustering, "_CENTROIDS", 3),
        (clustering, "_SUMMED", 7),
        (cluster_join, "_TILE", 2),
        (cluster_join, "_MERGED", 7),
    ):
        assert getattr(module, name) > 90  # or the first search was in pieces, too
        monkeypatch.setattr(module, name, size)
    assert search() == expected


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 99))
def test_members_by_cluster_and_by_group(rows, clusters, seed):
    chance = np.random.default_rng(seed)
    belongs = np.array([chance.permutation(clusters + 2)[:3] for _ in range(rows)], np.int32)
    places, limits = by_cluster(belongs, 0, clusters + 2)
    for cluster in range(clusters + 2):
        expected = np.flatnonzero((belongs == cluster).any(axis=1))
        assert places[limits[cluster] : limits[cluster + 1]].tolist() == expected.tolist()
    groups = chance.integers(0, 3, clusters + 2).astype(np.int32)
    dealt = partition(belongs, groups)
    for group in range(len(dealt.limits) - 1):
        here = slice(dealt.limits[group], dealt.limits[group + 1])
        expected = np.flatnonzero((groups[belongs] == group).any(axis=1))
        assert dealt.rows[here].tolist() == expected.tolist()
        assert np.array_equal(dealt.clusters[here], np.where(groups[belongs[expected]] == group, belongs[expected], -1))


def trained(seed: int = 1, rows: int = 900):
    source, target = unit_rows(rows, 16, seed), unit_rows(rows, 16, seed + 1)
    return source, target, train(source, target, divide(rows, rows, 40, 10)._replace(groups=4))


def test_clusters_do_not_depend_on_threads_and_hold_all_groups():
    results = []
    for threads in (1, 2):
        with torch_threads(threads):
            results.append(trained()[2])
    assert all(np.array_equal(left, right) for left, right in zip(*results, strict=True))
    assert np.unique(results[0].groups).tolist() == [0, 1, 2, 3]
    assert results[0].transform.dtype == np.float32
    assert np.array_equal(results[0].transform, np.rint(results[0].transform))


def test_nearest_clusters_are_those_of_the_largest_products():
    source, _, clusters = trained()
    rows = quantise(source)
    near = rows.astype(np.int64) @ clusters.centroids.astype(np.int64).T
    expected = np.lexsort((np.broadcast_to(np.arange(near.shape[1]), near.shape), -near), axis=1)[:, :5]
    assert np.array_equal(nearest_clusters(rows, clusters.centroids, 5), expected)


@pytest.mark.parametrize("length", [1, 1000, 10**8])
def test_directions_are_shortened_in_whole_numbers(length):
    assert clustering._shortened(np.array([3, -4]) * length).tolist() == [600, -800]
    assert clustering._shortened(np.zeros(2, np.int64)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("weights", "count", "groups"),
    [
        ([1, 1, 1, 1], 1, [[0, 1, 2, 3]]),
        ([9, 1, 1, 1], 2, [[0], [1, 2, 3]]),
        ([1, 1, 1, 9], 2, [[0, 1, 2], [3]]),
        ([1, 1, 1, 1], 9, [[0], [1], [2], [3]]),
    ],
)
def test_the_heaviest_group_is_cut_between_near_clusters(weights, count, groups):
    centroids = np.array([[100, 0], [98, 20], [20, 98], [0, 100]], np.int8)
    numbers = clustering._group(centroids, np.array(weights), count)
    found = [np.flatnonzero(numbers == number).tolist() for number in range(len(groups))]
    assert sorted(found) == groups


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_equal_vectors_make_no_trouble(rows):
    vectors = np.repeat(unit_rows(1, 8, 1), rows, axis=0)
    shard = vector_shard(0, np.ones(rows, bool), to_stored(vectors))
    forward, _ = search_clusters(shard, shard, min(rows, 4), None, 10)
    assert same(forward, reference_neighbours(shard.vectors, shard.vectors, min(rows, 4)))


def test_search_finds_nearly_all_and_all_when_each_row_is_in_every_cluster():
    chance = np.random.default_rng(5)
    source = unit_rows(900, 24, 1)
    target = source[chance.permutation(900)] + 0.05 * chance.normal(size=(900, 24)).astype(np.float32)
    valid = chance.random(900) > 0.05
    sides = [
        vector_shard(7, valid, to_stored(rows / np.linalg.norm(rows, axis=1)[:, None])) for rows in (source, target)
    ]
    exact = nearest_neighbours(sides[0].vectors, sides[1].vectors, 3)[0]
    expected = np.where(exact.ids >= 0, sides[1].rows[exact.ids], -1)
    forward, _ = search_clusters(*sides, 3, None, 10)
    assert np.mean(forward.ids[valid][:, 0] == expected[:, 0]) > 0.95
    assert (forward.ids[~valid] == -1).all()
    everywhere, _ = search_clusters(*sides, 3, 6, 6)
    assert np.mean(everywhere.ids[valid] == expected) > 0.999
    assert np.mean(everywhere.cosines[valid] == exact.cosines) > 0.999


def test_shards_assigned_one_by_one_are_assigned_alike():
    source, _, clusters = trained()
    whole = assign(source, clusters, 0, 6)
    parts = [assign(source[start : start + 130], clusters, 0, 6) for start in range(0, len(source), 130)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_lists_of_groups_merge_to_those_of_one_group():
    source, target, clusters = trained()
    sides = [assign(rows, clusters, number, 4) for number, rows in enumerate((source, target))]
    numbers = np.arange(len(source))
    whole, _ = join_group(Members(numbers, source, sides[0]), Members(numbers, target, sides[1]), 4)
    lists = no_neighbours(len(source), 4)
    parts = [partition(belongs, clusters.groups) for belongs in sides]
    for group in range(4):
        here = [slice(*part.limits[group : group + 2]) for part in parts]
        ours, theirs = (
            Members(part.rows[at], rows[part.rows[at]], part.clusters[at])
            for part, at, rows in zip(parts, here, (source, target), strict=True)
        )
        found, _ = join_group(ours, theirs, 4)
        more = no_neighbours(len(source), 4)
        more.ids[ours.rows], more.cosines[ours.rows] = found.ids, found.cosines
        lists = merge(lists, more, 4)
    assert np.mean(lists.ids == whole.ids) > 0.999


def test_division_grows_with_the_root_of_the_rows():
    small, large = divide(10_000, 10_000, None, 10), divide(1_000_000, 1_000_000, None, 10)
    assert (small.nlist, large.nlist) == (800, 8000)
    assert small.groups == 1
    assert large.groups == 24
    assert divide(1_000_000, 1_000_000, None, 10, k=64) == large
    assert divide(1_000_000, 1_000_000, None, 10, k=2048).groups == 747
    # nlist, groups, nprobe, sample, largest.
    assert small == Division(800, 1, 10, 16 * 800, 16 * 10 * 10_000 // 800)
    assert divide(3, 5, None, 10) == Division(5, 1, 5, 80, 1024)
    assert divide(90, 40, 7, 2) == Division(7, 1, 2, 112, 1024)
    assert (group_rows(64), group_rows(65), group_rows(128)) == (150_000, 147_692, 75_000)
    assert evenly_spaced(10, 4).tolist() == [0, 2, 5, 7]
    assert evenly_spaced(0, 4).tolist() == []
    assert torch.get_num_threads() >= 1
    empty = VectorShard(0, np.zeros(2, bool), np.empty((0, 4), np.float32))
    assert search_clusters(empty, empty, 2, None, 10)[0].ids.tolist() == [[-1, -1]] * 2
