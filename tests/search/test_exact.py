import functools
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.devices import torch_threads
from mining.errors import RunError
from mining.search.device_tiles import TorchProposer
from mining.search.exact import (
    certify,
    knn,
    near_on_cpu,
    near_on_device,
    nearest_neighbours,
    reference_neighbours,
    search_shards,
)
from mining.search.tiles import FaissProposer, TileProposer
from mining.search.topk import Neighbours, merge, no_neighbours
from mining.search.vectors import exact_cosines, from_stored, reference_cosines, to_stored, vector_shard


def unit_rows(rows: int, dim: int, seed: int, copies: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    if copies:
        vectors[rows // 2 : rows // 2 + copies] = vectors[0]
    return from_stored(to_stored(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))


def same(left: Neighbours, right: Neighbours) -> bool:
    return np.array_equal(left.ids, right.ids) and np.array_equal(left.cosines, right.cosines)


tile_sizes = st.sampled_from([1, 7, 96, 0])
proposers = st.one_of(
    st.builds(TileProposer, tile_sizes, tile_sizes, st.none(), st.booleans()),
    st.builds(
        TorchProposer,
        st.sampled_from(["cpu", ["cpu", "cpu"]]),
        st.sampled_from([32, 96, 2048]),
        st.sampled_from([32, 160, 8192]),
        st.none(),
        st.booleans(),
    ),
    st.builds(FaissProposer, st.just("cpu"), st.sampled_from([7, 64, 2048]), st.sampled_from([11, 8192])),
)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 90),
    st.integers(1, 400),
    st.integers(1, 6),
    st.integers(0, 40),
    st.integers(0, 99),
    st.integers(1, 3),
    proposers,
)
def test_both_directions_equal_the_reference(n, m, k, copies, seed, threads, propose):
    source, target = unit_rows(n, 8, seed), unit_rows(m, 8, seed + 1, min(copies, m - m // 2))
    source[-1] = target[0]
    with torch_threads(threads):
        forward, backward = nearest_neighbours(source, target, k, propose)
        alone = knn(source, target, k, propose)
    assert same(forward, reference_neighbours(source, target, k))
    assert same(backward, reference_neighbours(target, source, k))
    assert same(forward, alone)


def test_grouped_top_k_on_tiles_larger_than_their_groups():
    source, target = unit_rows(600, 16, 1), unit_rows(1500, 16, 2, copies=30)
    forward, backward = nearest_neighbours(source, target, 4, TorchProposer())
    assert same(forward, reference_neighbours(source, target, 4))
    assert same(backward, reference_neighbours(target, source, 4))


@pytest.mark.parametrize("halves", [False, True])
def test_threads_that_share_the_lists_of_rows_do_not_lose_entries(halves):
    source, target = unit_rows(700, 16, 1), unit_rows(900, 16, 2, copies=30)
    expected = reference_neighbours(source, target, 4), reference_neighbours(target, source, 4)
    with torch_threads(4):
        for _ in range(5):
            found = nearest_neighbours(source, target, 4, TileProposer(64, 32, halves=halves))
            assert same(found[0], expected[0])
            assert same(found[1], expected[1])


@pytest.mark.parametrize("halves", [False, True])
def test_dense_neighbourhoods_are_searched_again(halves):
    """Hundreds of vectors within the error of a rounded product of each other."""
    chance = np.random.default_rng(3)
    near = unit_rows(1, 24, 5) + chance.normal(scale=2e-3, size=(500, 24)).astype(np.float32)
    source = near[::3] / np.linalg.norm(near[::3], axis=1, keepdims=True)
    target = near / np.linalg.norm(near, axis=1, keepdims=True)
    propose = TileProposer(halves=halves)
    forward, backward = nearest_neighbours(source, target, 4, propose)
    assert same(forward, reference_neighbours(source, target, 4))
    assert same(backward, reference_neighbours(target, source, 4))
    proposal, _ = propose(source, target, 4 + propose.extra)
    assert (len(certify(source, target, proposal, 4).open_rows) > 100) == halves


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.integers(1, 90), st.integers(1, 6), st.integers(0, 40), st.integers(0, 99))
def test_a_second_search_gives_the_same_on_cpu_and_as_for_other_devices(m, n, k, copies, seed):
    base, queries = unit_rows(m, 8, seed, min(copies, m - m // 2)), unit_rows(n, 8, seed + 1)
    expected = reference_neighbours(queries, base, k)
    floors = np.maximum(expected.cosines[:, -1] - np.float32(seed % 3) / 8, -2)
    for near in (near_on_cpu, functools.partial(near_on_device, device=torch.device("cpu"))):
        found = no_neighbours(n, k)
        near(queries, base, floors.copy(), found)
        assert same(found, expected)


class TooCoarse:
    """A proposer whose similarities err by more than it says."""

    extra, device = 4, torch.device("cpu")

    def __init__(self, again):
        self.again = again

    def in_float32(self):
        return self.again or self

    def __call__(self, source, target, count):
        proposals = TileProposer(halves=False)(source, target, count)
        return tuple(p._replace(similarities=p.similarities - np.float32(0.01)) for p in proposals)


def test_a_product_that_errs_by_more_than_its_bound_is_noticed(caplog):
    source, target = unit_rows(20, 8, 0), unit_rows(30, 8, 1)
    forward, _ = nearest_neighbours(source, target, 2, TooCoarse(TileProposer()))
    assert same(forward, reference_neighbours(source, target, 2))
    assert "searching again in float32" in caplog.text
    with pytest.raises(RunError, match=r"float32 product of this device errs by 0.01 more"):
        nearest_neighbours(source, target, 2, TooCoarse(None))


def test_progress_rises_to_the_whole():
    for make in (TileProposer, functools.partial(TorchProposer, "cpu")):
        seen: list[float] = []
        make(32, 32, seen.append)(unit_rows(70, 8, 0), unit_rows(100, 8, 1), 3)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 70), st.integers(1, 20), st.integers(0, 99))
def test_cosines_are_those_of_the_numpy_reference(dim, pairs, seed):
    chance = np.random.default_rng(seed)
    left, right = unit_rows(7, dim, seed), unit_rows(9, dim, seed + 1)
    rows, columns = chance.integers(0, 7, pairs), chance.integers(0, 9, pairs)
    cosines = exact_cosines(left, right, rows, columns)
    assert cosines.tobytes() == reference_cosines(left[rows], right[columns]).tobytes()


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


def test_stored_vectors_come_back_the_same_in_parts_and_from_a_read_only_map(tmp_path):
    stored = to_stored(unit_rows(1500, 20, 4))
    np.save(tmp_path / "x.npy", stored)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with torch_threads(3):
        whole = from_stored(mapped)
    assert whole.tobytes() == np.vstack([from_stored(stored[:700]), from_stored(stored[700:])]).tobytes()
