"""Kernels and the threads that share them."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from mining.compiled import Float32Matrix, Float64Matrix, compiled, in_ranges


def _sum(values: np.ndarray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def test_a_kernel_gives_what_its_python_gives() -> None:
    values = np.random.default_rng(1).normal(size=1001)
    assert compiled(_sum)(values) == _sum(values)


def test_a_kernel_is_its_function_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", True)
    assert compiled(_sum) is _sum


def test_linear_algebra_is_loaded_before_memory_is_used() -> None:
    pytest.importorskip("scipy")
    script = "import sys, mining.compiled; sys.exit('scipy.linalg.cython_blas' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


@pytest.fixture
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("nothing_kept")
def test_threads_that_call_a_new_kernel_at_once_compile_it_once() -> None:
    kernel: Any = compiled(_sum)
    kinds = [np.ones(5, kind) for kind in (np.float64, np.float32, np.int64)]
    barrier = threading.Barrier(3 * len(kinds))

    def call(values: np.ndarray) -> float:
        barrier.wait()
        return float(kernel(values))

    with ThreadPoolExecutor(barrier.parties) as pool:
        assert list(pool.map(call, 3 * kinds)) == [5.0] * barrier.parties
    assert sorted(kernel.stats.cache_misses.values()) == [1, 1, 1]


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


@compiled
def first_of(rows: Float32Matrix, row: int) -> Any:
    return rows[row, 0]


@compiled
def first_of_turned(rows: Any, row: int) -> Any:
    return first_of(rows.T, row)


@compiled
def first_of_doubles(rows: Float64Matrix) -> Any:
    return first_of(rows, 0)


def test_arguments_are_what_the_annotations_say():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert first_of(rows, 1) == 3
    assert first_of_turned(rows, np.int32(1)) == 1
    for wrong, message in (
        ((rows.astype(np.float64), 1), r"rows is array\(float64, 2d, C\), and declared as array\(float32, 2d\)"),
        ((rows[0], 1), r"rows is array\(float32, 1d, C\)"),
        ((rows, 1.5), "row is float64, and declared as int"),
    ):
        with pytest.raises(TypeError, match=f"first_of: {message}"):
            first_of(*wrong)
    with pytest.raises(TypeError, match="first_of: rows is array"):
        first_of_doubles(np.ones((1, 1)))
