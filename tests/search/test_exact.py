import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search import (
    FaissProposer,
    Neighbours,
    TorchProposer,
    exact_cosines,
    from_stored,
    knn,
    merge,
    nearest_neighbours,
    no_neighbours,
    reference_neighbours,
    to_stored,
)
from mining.search.shards import search_shards, vector_shard


def unit_rows(rows: int, dim: int, seed: int, copies: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    if copies:
        vectors[rows // 2 : rows // 2 + copies] = vectors[0]
    return from_stored(to_stored(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))


def same(left: Neighbours, right: Neighbours) -> bool:
    return np.array_equal(left.ids, right.ids) and np.array_equal(left.cosines, right.cosines)


proposers = st.one_of(
    st.builds(TorchProposer, st.just("cpu"), st.sampled_from([32, 96, 2048]), st.sampled_from([32, 160, 8192])),
    st.builds(FaissProposer, st.just("cpu"), st.sampled_from([7, 64, 2048]), st.sampled_from([11, 8192])),
)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(1, 400), st.integers(1, 6), st.integers(0, 40), st.integers(0, 99), proposers)
def test_both_directions_equal_the_reference(n, m, k, copies, seed, propose):
    source, target = unit_rows(n, 8, seed), unit_rows(m, 8, seed + 1, min(copies, m - m // 2))
    source[-1] = target[0]
    forward, backward = nearest_neighbours(source, target, k, propose)
    assert same(forward, reference_neighbours(source, target, k))
    assert same(backward, reference_neighbours(target, source, k))
    assert same(forward, knn(source, target, k, propose))


def test_grouped_top_k_on_tiles_larger_than_their_groups():
    source, target = unit_rows(600, 16, 1), unit_rows(1500, 16, 2, copies=30)
    forward, backward = nearest_neighbours(source, target, 4)
    assert same(forward, reference_neighbours(source, target, 4))
    assert same(backward, reference_neighbours(target, source, 4))


def test_hundreds_of_equal_vectors_are_cut_by_id():
    target = np.repeat(unit_rows(1, 8, 3), 700, axis=0)
    forward, _ = nearest_neighbours(target[:5], target, 4)
    assert forward.ids.tolist() == [[0, 1, 2, 3]] * 5


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 5), st.integers(1, 5), st.integers(0, 99), st.data())
def test_shards_merge_to_the_whole(n, m, k, parts, seed, chance):
    source, target = unit_rows(n, 8, seed), unit_rows(m, 8, seed + 1, m // 3)
    valid = np.array(chance.draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    stored = to_stored(target)
    query = vector_shard(0, np.ones(n, bool), to_stored(source))
    whole, _ = search_shards(query, vector_shard(0, valid, stored), k)
    cuts = np.linspace(0, m, parts + 1).astype(int)
    lists = no_neighbours(n, k)
    for start, stop in itertools.pairwise(cuts):
        part, _ = search_shards(query, vector_shard(int(start), valid[start:stop], stored[start:stop]), k)
        lists = merge(part, lists, k)
    assert same(lists, whole)
    assert not np.isin(whole.ids, np.flatnonzero(~valid)).any()


def test_an_empty_side_has_no_neighbours():
    forward, backward = nearest_neighbours(unit_rows(3, 8, 0), np.empty((0, 8), np.float32), 2)
    assert forward.ids.tolist() == [[-1, -1]] * 3
    assert backward.ids.shape == (0, 2)


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="different dimension"):
        nearest_neighbours(unit_rows(3, 8, 0), unit_rows(3, 9, 0), 1)


def test_stored_vectors_come_back_as_unit_rows_and_zero_stays_zero():
    vectors = np.vstack([unit_rows(50, 300, 4), np.zeros((1, 300), np.float32)])
    back = from_stored(to_stored(vectors))
    assert np.linalg.norm(back[:-1].astype(np.float64), axis=1) == pytest.approx(np.ones(50), abs=1e-6)
    assert not back[-1].any()
    rows = np.arange(50)
    assert exact_cosines(back, back, rows, rows).max() <= 1.0
