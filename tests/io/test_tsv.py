"""TSV by columns."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.io.tsv import tsv_bytes, tsv_line

decimals = st.integers(-(10**10), 10**10).map(lambda n: n / 1_000_000)
halves = st.integers(-(10**7), 10**7).map(lambda n: (2 * n + 1) / 2_000_000)
floats = st.none() | decimals | halves | st.floats()
texts = st.none() | st.lists(st.sampled_from(["a", "\t", "\n", "\r", "ä", "\u2028"]) | st.text(max_size=3)).map("".join)
rows = st.lists(st.tuples(floats, st.none() | st.integers(-(2**63), 2**63 - 1), texts, st.none() | st.booleans()))


def expected(columns: list[pa.Array]) -> str:
    values = zip(*(column.to_pylist() for column in columns), strict=True)
    return "".join(map(tsv_line, values))


@given(rows)
def test_columns_equal_lines(table: list[tuple]) -> None:
    columns = list(zip(*table, strict=True)) or [()] * 4
    types = [pa.float64(), pa.int64(), pa.string(), pa.bool_()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    assert bytes(tsv_bytes(arrays)).decode() == expected(arrays)


@given(st.lists(decimals, min_size=1))
def test_floats_alone(values: list[float]) -> None:
    arrays = [pa.array(values), pa.array(values)]
    assert bytes(tsv_bytes(arrays)).decode() == expected(arrays)


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-9, 0.0000005, 0.0000015, 1.0000005, 1e15, 1e300, math.nan, -math.inf])
def test_hard_floats(value: float) -> None:
    for array in (pa.array([value]), pa.array([0.5, value, None, 12.25])):
        assert bytes(tsv_bytes([array])).decode() == expected([array])


@pytest.mark.parametrize("value", [-(2**63), -(2**63) + 1, 2**63 - 1])
def test_largest_integers(value: int) -> None:
    for array in (pa.array([value]), pa.array([0, value, None])):
        assert bytes(tsv_bytes([array])).decode() == expected([array])


def test_slices_chunks_and_other_types() -> None:
    text = pa.chunked_array([pa.array(["x", "a\tb", "c"]).slice(1), pa.array(["d"])])
    arrays = [text, pa.array([1, 2, 3], pa.uint8()), text.cast(pa.large_string()), pa.array([1, None, 3], pa.int32())]
    assert bytes(tsv_bytes(arrays)).decode() == expected(arrays)
