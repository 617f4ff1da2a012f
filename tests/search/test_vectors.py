"""Unit vectors in eight bits."""

from __future__ import annotations

import numpy as np
import pytest

from mining.search.vectors import LARGEST, _by_floats, product, quantise, round_directions, scale
from tests.search.test_exact import unit_rows


@pytest.mark.parametrize(("dim", "largest"), [(1, 1.0), (36, 1.0), (144, 0.5), (900, 0.2)])
def test_the_largest_entry_becomes_127(dim, largest):
    assert LARGEST == 6.0
    assert scale(dim) == np.float32(127 / largest)
    rows = np.zeros((3, dim), np.float32)
    rows[:, 0] = 1.0, largest / 2, -1.0
    assert quantise(rows)[:, 0].tolist() == [127, 64, -127]  # 63.5 is rounded to the even number


def test_directions_that_remain_when_the_centre_is_subtracted():
    rows, centre, out = (
        np.array([[5, 6], [2, 2], [2, -1]], np.float32),
        np.array([2, 2], np.float32),
        np.empty((3, 2), np.int8),
    )
    round_directions(rows, centre, np.float32(100), out)
    assert out.tolist() == [[60, 80], [0, 0], [0, -100]]


def test_products_of_the_largest_bytes_are_exact():
    left, right, out = np.full((2, 512), 127, np.int8), np.full((3, 512), -127, np.int8), np.empty((2, 3), np.int32)
    product()(left, right, out)
    assert (out == -512 * 127**2).all()


@pytest.mark.parametrize("dim", [1, 2, 7, 300, 1024])
def test_products_of_bytes_are_exact_by_bytes_and_by_floats(dim):
    left, right = quantise(unit_rows(70, dim, 1)), quantise(unit_rows(90, dim, 2))
    left[0], right[0] = 127, -127
    expected = left.astype(np.int64) @ right.astype(np.int64).T
    for multiply in (product(), _by_floats):
        out = np.empty((70, 90), np.int32)
        multiply(left, right, out)
        assert np.array_equal(out, expected)


def test_quantised_rows_are_the_rounded_entries():
    vectors = unit_rows(50, 30, 3)
    expected = np.clip(np.rint(vectors * scale(30)), -127, 127)
    assert np.array_equal(quantise(vectors), expected.astype(np.int8))
