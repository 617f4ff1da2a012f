import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.devices import torch_threads
from mining.search.clusters import _GROWTH, _STEP, RIDGE, WHITENING, transformed, whitening, whitening_power
from mining.search.vectors import quantise, scale
from tests.search.test_exact import unit_rows


def uneven_rows(rows: int, dim: int, seed: int) -> np.ndarray:
    """Unit rows with directions of very different variance, one without any."""
    chance = np.random.default_rng(seed)
    table = (
        chance.normal(size=(rows, dim))
        * np.exp(1.5 * chance.normal(size=dim))
        @ np.linalg.qr(chance.normal(size=(dim, dim)))[0]
    )
    table[:, -1] = 0.0
    table[:, 0] += 2.0
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(3, 40), st.integers(0, 99))
def test_the_power_is_that_of_the_eigenvalues(dim, seed):
    covariance = np.cov(uneven_rows(3 * dim, dim, seed).T.astype(np.float64))
    values, directions = np.linalg.eigh(covariance)
    expected = (directions * (np.maximum(values, 0) + RIDGE * values.mean()) ** -WHITENING) @ directions.T
    power = whitening_power(covariance)
    relative = np.linalg.norm(power) / np.linalg.norm(expected)
    assert np.abs(power / relative - expected).max() < 2e-3 * np.abs(expected).max()
    assert np.array_equal(power, power.T)


def test_without_any_variance_it_is_the_unit_matrix():
    power = whitening_power(np.zeros((3, 3)))
    assert np.array_equal(power, power[0, 0] * np.eye(3))
    assert power[0, 0] > 0


def test_the_growth_of_the_weights_is_the_power_of_the_step():
    assert pytest.approx(_STEP ** (1 - WHITENING), rel=1e-15) == _GROWTH


def test_threads_never_show():
    sides = quantise(uneven_rows(500, 24, 1)), quantise(uneven_rows(300, 24, 2))
    results = []
    for threads in (1, 2, 5):
        with torch_threads(threads):
            results.append([part.tobytes() for part in whitening(sides)])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dim", [1, 12, 100])
def test_transformed_rows_are_exact_whole_numbers(dim):
    """Whatever part of a float32 product is added up stays below 2^24, where whole numbers are
    exact, before and after the centre is subtracted: also for the rows that the transformation
    stretches most."""
    sides = tuple(quantise(uneven_rows(400, dim + 1, seed)[:, :dim].copy()) for seed in (3, 4))
    transform, centres = whitening(sides)
    stretched = transform.T / np.linalg.norm(transform, axis=0)[:, None]
    rows = quantise(np.vstack([stretched, unit_rows(20, dim, 5)]))
    sums = rows.astype(np.int64) @ transform.astype(np.int64)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1).max(), np.linalg.norm(transform, axis=0).max()
    # No sum of some of the products exceeds the product of the lengths (Cauchy-Schwarz).
    assert lengths[0] * lengths[1] < 2**21
    assert np.abs(sums).max() > 2**18
    exact = (sums - centres[0].astype(np.int64)).astype(np.float64)
    length = np.sqrt((exact**2).sum(1))
    factors = np.where(length > 0, scale(dim) / np.where(length > 0, length, 1), 0).astype(np.float32)
    expected = np.clip(np.rint(exact.astype(np.float32) * factors[:, None]), -127, 127)
    assert np.array_equal(transformed(rows, transform, centres[0]), expected)


def test_centres_are_the_transformed_means_rounded():
    sides = quantise(uneven_rows(10, 6, 1)), quantise(uneven_rows(7, 6, 2))
    transform, centres = whitening(sides)
    for side, centre in zip(sides, centres, strict=True):
        sums = side.astype(np.int64).sum(0) @ transform.astype(np.int64)
        assert centre.tolist() == [(2 * total + len(side)) // (2 * len(side)) for total in sums.tolist()]


def test_a_side_without_rows():
    transform, centres = whitening((quantise(unit_rows(9, 4, 1)), np.empty((0, 4), np.int8)))
    assert centres[1].tolist() == [0, 0, 0, 0]
    assert np.isfinite(transform).all()
