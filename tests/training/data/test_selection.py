from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.training.data.prepared import Ledger
from mining.training.data.read import ReadDomain, Spool
from mining.training.data.select import sample, select, shares


def spool(keys: list[tuple[int, int]], domain: list[int], caps: list[int | None], weights: list[float]) -> Spool:
    domains = [
        ReadDomain(str(n), None, cap, weight, {}) for n, (cap, weight) in enumerate(zip(caps, weights, strict=True))
    ]
    return Spool(Path("none"), np.array(keys, np.uint64), np.array(domain, np.uint16), domains, len(keys), [])


def distinct(count: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(count)]


def test_the_first_of_equal_pairs_stays() -> None:
    pairs = spool([(1, 2), (1, 3), (1, 2), (2, 1), (1, 3)], [0, 0, 1, 1, 1], [None, None], [1, 1])
    ledger = Ledger([{}] * len(pairs.domains))
    keep = select(pairs, ledger, duplicates=True, seed=1)
    assert keep.tolist() == [True, True, False, True, False]
    assert [ledger.of(number) for number in (0, 1)] == [{}, {"duplicate": 2}]
    assert select(pairs, Ledger([{}] * len(pairs.domains)), duplicates=False, seed=1).all()


def test_caps_draw_at_random_by_the_seed() -> None:
    pairs = spool(distinct(1000), [0] * 600 + [1] * 400, [100, None], [1, 1])
    ledger = Ledger([{}] * len(pairs.domains))
    keep = select(pairs, ledger, duplicates=True, seed=1)
    assert keep[:600].sum() == 100
    assert keep[600:].all()
    assert ledger.of(0) == {"domain_cap": 500}
    assert 20 < keep[:300].sum() < 80
    assert np.array_equal(keep, select(pairs, Ledger([{}] * len(pairs.domains)), duplicates=True, seed=1))
    assert not np.array_equal(keep, select(pairs, Ledger([{}] * len(pairs.domains)), duplicates=True, seed=2))


def test_duplicates_do_not_use_up_a_cap() -> None:
    pairs = spool([(1, 1)] * 50 + distinct(60)[2:], [0] * 108, [59], [1])
    ledger = Ledger([{}] * len(pairs.domains))
    keep = select(pairs, ledger, duplicates=True, seed=1)
    assert keep.sum() == 59
    assert ledger.of(0) == {"duplicate": 49}


def test_the_sample_follows_pairs_and_weights() -> None:
    pairs = spool(distinct(1000), [0] * 800 + [1] * 200, [None, None], [0.5, 1])
    keep = np.ones(1000, bool)
    keep[:400] = False
    chosen = sample(pairs, keep, 100, seed=1)
    assert np.bincount(pairs.domain[chosen]).tolist() == [50, 50]
    assert not chosen[:400].any()


@pytest.mark.parametrize(
    ("sizes", "weights", "count", "expected"),
    [
        ([100, 100], [1, 1], 50, [25, 25]),
        ([100, 100], [1, 3], 40, [10, 30]),
        ([10, 100], [10, 1], 60, [10, 50]),
        ([10, 100], [1, 1], 500, [10, 100]),
        ([0, 100], [1, 1], 10, [0, 10]),
        ([1, 10_000], [1, 1], 10, [1, 10]),
    ],
)
def test_shares(sizes: list[int], weights: list[float], count: int, expected: list[int]) -> None:
    assert shares(np.array(sizes), np.array(weights, float), count).tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 500), st.floats(0.01, 100)), min_size=1, max_size=8),
    st.integers(1, 2000),
)
def test_shares_are_within_reach(domains: list[tuple[int, float]], count: int) -> None:
    sizes = np.array([size for size, _ in domains])
    found = shares(sizes, np.array([weight for _, weight in domains]), count)
    assert (found <= sizes).all()
    assert abs(found.sum() - min(count, sizes.sum())) <= len(domains)
