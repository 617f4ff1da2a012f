import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search import quantised
from mining.search.key_lists import EMPTY, empty_lists, merge_keys, positions, similarities, update, update_rows
from mining.search.quantised import quantise
from tests.search.test_exact import unit_rows


def reference(tile: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The lists of the rows by plain sorting: (similarity descending, position)."""
    keys = empty_lists(*shape)
    for i, row in enumerate(rows):
        order = sorted(range(len(columns)), key=lambda j: (-tile[i, j], columns[j]))[: shape[1]]
        keys[row, : len(order)] = [int(tile[i, j]) * 2**32 + 2**32 - 1 - int(columns[j]) for j in order]
    return keys


tiles = st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))


@settings(max_examples=50)
@given(tiles, st.integers(1, 3), st.randoms(use_true_random=False))
def test_lists_are_the_best_of_all_that_was_shown_in_any_order_and_again(shape, repeats, shuffle):
    n, m, count, seed = shape
    chance = np.random.default_rng(seed)
    # Few distinct values, so that ties are common; negative ones as well.
    tile = chance.integers(-3, 4, (n, m)).astype(np.int32)
    rows, columns = chance.permutation(n + 3)[:n].astype(np.int64), chance.permutation(m + 5)[:m].astype(np.int64)
    row_keys, column_keys = empty_lists(n + 3, count), empty_lists(m + 5, count)
    parts = [(i, j) for i in range(0, n, 7) for j in range(0, m, 9)] * repeats
    shuffle.shuffle(parts)
    for i, j in parts:
        part = np.ascontiguousarray(tile[i : i + 7, j : j + 9])
        update(part, rows[i : i + 7], columns[j : j + 9], row_keys, column_keys)
    assert np.array_equal(row_keys, reference(tile, rows, columns, (n + 3, count)))
    assert np.array_equal(column_keys, reference(tile.T, columns, rows, (m + 5, count)))


@settings(max_examples=30)
@given(tiles)
def test_rows_alone_and_merged_lists(shape):
    n, m, count, seed = shape
    tile = np.random.default_rng(seed).integers(-50, 50, (n, m)).astype(np.int32)
    whole = reference(tile, np.arange(n), np.arange(m), (n, count))
    one, other = empty_lists(n, count), empty_lists(n, count)
    update_rows(np.ascontiguousarray(tile[:, : m // 2]), 0, one)
    update_rows(np.ascontiguousarray(tile[:, m // 3 :]), m // 3, other)
    merge_keys(one, other, 0, n)
    assert np.array_equal(one, whole)
    found = positions(one)
    assert (found[one == EMPTY] == -1).all()
    rows, places = np.nonzero(one != EMPTY)
    assert np.array_equal(similarities(one)[rows, places], tile[rows, found[rows, places]])


@pytest.mark.parametrize("dim", [1, 2, 7, 300, 1024])
def test_products_of_bytes_are_exact_by_bytes_and_by_floats(dim):
    left, right = quantise(unit_rows(70, dim, 1)), quantise(unit_rows(90, dim, 2))
    left[0], right[0] = 127, -127
    expected = left.astype(np.int64) @ right.astype(np.int64).T
    for multiply in (quantised.product(), quantised._by_floats):
        out = np.empty((70, 90), np.int32)
        multiply(left, right, out)
        assert np.array_equal(out, expected)


def test_quantised_rows_are_the_rounded_entries():
    vectors = unit_rows(50, 30, 3)
    expected = np.clip(np.rint(vectors * quantised.scale(30)), -127, 127)
    assert np.array_equal(quantise(vectors), expected.astype(np.int8))
