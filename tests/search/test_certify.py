"""What is certified is right for every proposal that keeps its promises: similarities that err by
no more than their bound, and nothing left out that exceeds the last of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mining.search.exact import certify, near_on_device, reference_neighbours
from mining.search.tiles import Proposal, Rounding
from mining.search.topk import no_neighbours
from mining.search.vectors import reference_cosines
from tests.search.test_exact import same, unit_rows


def at_cosines(cosines: list[float]) -> np.ndarray:
    """Unit rows in the plane with these cosines to (1, 0)."""
    return np.array([(c, np.sqrt(1 - c * c)) for c in cosines], np.float32)


QUERY = np.array([[1.0, 0.0]], np.float32)


def proposal_of(positions: list[int], similarities: list[float], rounding: Rounding) -> Proposal:
    return Proposal(np.array([positions]), np.array([similarities], np.float32), rounding)


@pytest.mark.parametrize("rounding", [Rounding(0.1), Rounding(0.0, 0.2), Rounding(0.05, 0.1)])
def test_the_kth_similarity_may_err_as_well(rounding):
    """The first seems nearest by nearly the bound, the second is so and seems farther by nearly the
    bound."""
    base = at_cosines([0.5, 0.505])
    found, open_rows, excess = certify(QUERY, base, proposal_of([0, 1], [0.59, 0.43], rounding), 1)
    assert found.ids.tolist() == [[1]]
    assert open_rows.tolist() == []
    assert excess == 0.0


def test_a_row_is_open_while_one_that_was_not_proposed_may_be_as_near():
    base = at_cosines([0.5, 0.4, 0.3])
    for last, is_open in ((0.39, False), (0.41, True), (0.4000001, True)):
        proposal = proposal_of([0, 1], [0.5, last], Rounding(0.1))
        found, open_rows, _ = certify(QUERY, base, proposal, 1)
        assert found.ids.tolist() == [[0]]
        assert open_rows.tolist() == ([0] if is_open else [])
        # With everything proposed nothing is left out.
        assert certify(QUERY, base[:2], proposal, 1).open_rows.tolist() == []


def test_an_error_beyond_the_bound_is_told():
    base = at_cosines([0.5, 0.4])
    for similarity in (0.75, 0.25):
        excess = certify(QUERY, base, proposal_of([0], [similarity], Rounding(0.1, 0.1)), 1).excess
        assert excess == pytest.approx(0.25 - 0.1 - 0.1 * similarity)
    assert certify(QUERY, base, proposal_of([0], [0.55], Rounding(0.1)), 1).excess == 0.0


@given(
    st.integers(1, 30),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([(0.02, 0.0), (0.2, 0.0), (0.0, 0.1), (0.05, 0.05), (0.0, 0.0)]),
    st.booleans(),
    st.integers(0, 999),
)
def test_settled_rows_are_those_of_the_reference(m, k, extra, bound, extreme, seed):
    chance = np.random.default_rng(seed)
    queries, base = unit_rows(6, 3, seed), unit_rows(m, 3, seed + 1, m // 3)
    left, right = np.repeat(np.arange(6), m), np.tile(np.arange(m), 6)
    exact = reference_cosines(queries[left], base[right]).reshape(6, m).astype(np.float64)
    share = chance.choice([-0.99, 0.99], exact.shape) if extreme else chance.uniform(-0.99, 0.99, exact.shape)
    # Within the bound of the similarity, which is relative to itself.
    errors = share * (bound[0] + bound[1] * np.abs(exact)) / (1 + bound[1])
    similarities = (exact + errors).astype(np.float32)
    if bound == (0.0, 0.0):
        similarities = exact.astype(np.float32)
    order = np.argsort(-similarities, axis=1, kind="stable")[:, : k + extra]
    proposal = Proposal(order, np.take_along_axis(similarities, order, 1), Rounding(*bound))
    found, open_rows, excess = certify(queries, base, proposal, k)
    assert excess == 0.0
    expected = reference_neighbours(queries, base, k)
    settled = np.setdiff1d(np.arange(6), open_rows)
    assert same(*(type(found)(lists.ids[settled], lists.cosines[settled]) for lists in (found, expected)))
    if k + extra >= m:
        assert len(open_rows) == 0


def test_a_second_search_in_small_tiles_raises_floors_to_the_kth(monkeypatch):
    """After each block of base rows a device is asked only for what exceeds the k-th found so
    far."""
    monkeypatch.setattr("mining.search.exact._DEVICE_TILE", (7, 11))
    base, queries = unit_rows(90, 8, 1, 30), unit_rows(20, 8, 2)
    for k in (1, 2, 4):
        expected = reference_neighbours(queries, base, k)
        found = no_neighbours(20, k)
        near_on_device(queries, base, np.full(20, -2, np.float32), found, torch.device("cpu"))
        assert same(found, expected)
