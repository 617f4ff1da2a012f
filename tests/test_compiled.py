"""Kernels and the threads that share them."""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.compiled import compiled, in_ranges


def _sum(values: np.ndarray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def test_a_kernel_gives_what_its_python_gives() -> None:
    values = np.random.default_rng(1).normal(size=1001)
    assert compiled(_sum)(values) == _sum(values)


def test_a_kernel_works_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numba.njit

    def refuse(*args: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return whole(*args, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiled(_sum)(np.array([1.0, 2.0])) == 3.0


@given(count=st.integers(0, 50), threads=st.integers(1, 9), least=st.integers(0, 9))
def test_ranges_cover_everything_once(count: int, threads: int, least: int) -> None:
    seen, lock = np.zeros(count, np.int64), threading.Lock()
    sizes = []

    def work(start: int, stop: int) -> None:
        with lock:
            seen[start:stop] += 1
            sizes.append(stop - start)

    in_ranges(work, count, threads, least)
    assert (seen == 1).all()
    assert len(sizes) <= threads
    assert len(sizes) == 1 or min(sizes) >= least


def test_an_error_in_any_range_is_raised() -> None:
    def work(start: int, stop: int) -> None:
        if stop == 10:
            raise ValueError("the last range")

    with pytest.raises(ValueError, match="the last range"):
        in_ranges(work, 10, threads=3)
