"""Compiled sums and unit vectors against numpy, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.averaging import unit_rows, unit_sums
from mining.encoder.bags import bag_sums

DTYPES = ["float32", "float16", "int8"]
ROWS = 40


def slow_unit(row: np.ndarray) -> tuple[np.ndarray, bool]:
    """A row at length one: squares added in eight parts, the parts in pairs, then the rest."""
    wide = row.astype(np.float64)
    whole = len(wide) - len(wide) % 8
    parts = np.zeros(8)
    for eight in wide[:whole].reshape(-1, 8):
        parts = parts + eight * eight
    while len(parts) > 1:
        parts = parts[::2] + parts[1::2]
    total = parts[0]
    for number in wide[whole:]:
        total = total + number * number
    norm = np.sqrt(total)
    if not np.isfinite(norm) or norm == 0:
        return np.zeros_like(row), False
    return (wide / norm).astype(np.float32), True


def stored(dtype: str, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table as compiled code takes it, its scales, and what it stands for."""
    chance = np.random.default_rng(dim)
    values = chance.normal(size=(ROWS, dim)).astype(np.float32)
    if dtype == "float16":
        values[0, 0], values[1, 0] = 3e-8, -6e4
        return values.astype(np.float16).view(np.uint16), np.ones(1, np.float32), values.astype(np.float16)
    if dtype == "int8":
        whole, scales = np.round(values * 30).astype(np.int8), chance.random(ROWS, np.float32)
        return whole, scales, whole.astype(np.float32) * scales[:, None]
    return values, np.ones(1, np.float32), values


@pytest.mark.parametrize("dtype", DTYPES)
@given(bags=st.lists(st.lists(st.integers(0, ROWS - 1), max_size=13), max_size=6), dim=st.sampled_from([1, 7, 8, 29]))
def test_sums_are_added_in_order(dtype: str, bags: list[list[int]], dim: int) -> None:
    table, scales, numbers = stored(dtype, dim)
    ids = np.array([number for bag in bags for number in bag], np.int32)
    offsets = np.cumsum([0, *map(len, bags)])
    # Fewer columns than the table has: the first ones.
    rows, valid = np.full((len(bags), max(1, dim - 1)), np.nan, np.float32), np.zeros(len(bags), bool)
    unit_sums(ids, offsets, table, scales, rows, valid)
    for number, bag in enumerate(bags):
        total = np.zeros(rows.shape[1], np.float32)
        for token in bag:
            total = total + numbers[token, : rows.shape[1]].astype(np.float32)
        expected, usable = slow_unit(total * (np.float32(1) / np.float32(max(1, len(bag)))))
        assert rows[number].tobytes() == expected.tobytes()
        assert valid[number] == usable


def test_sums_are_those_of_torch() -> None:
    chance = np.random.default_rng(2)
    table = chance.normal(size=(500, 300)).astype(np.float32)
    offsets = np.concatenate(([0], np.cumsum(chance.integers(0, 40, 200))))
    ids = chance.integers(0, 500, offsets[-1]).astype(np.int32)
    rows, valid = np.empty((200, 300), np.float32), np.empty(200, bool)
    unit_sums(ids, offsets, table, np.ones(1, np.float32), rows, valid)
    sums = bag_sums(torch.from_numpy(table), torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(offsets)).numpy()
    shares = np.reciprocal(np.maximum(np.diff(offsets), 1).astype(np.float32))
    expected, usable = unit_rows(sums * shares[:, None])
    np.testing.assert_allclose(rows, expected, atol=1e-7)
    assert valid.tolist() == usable.tolist()


@given(st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=1, max_size=40), st.integers(1, 4))
def test_unit_rows_are_the_slow_ones(numbers: list[float], copies: int) -> None:
    sums = np.array([numbers] * copies, np.float32)
    rows, valid = unit_rows(sums)
    expected, usable = slow_unit(sums[0])
    assert all(row.tobytes() == expected.tobytes() for row in rows)
    assert valid.tolist() == [usable] * copies


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan])
def test_rows_without_direction_are_zero(number: float) -> None:
    rows, valid = unit_rows(np.array([[number, number]], np.float32))
    assert not rows.any()
    assert not valid.any()
