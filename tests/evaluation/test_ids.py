"""Ids among others, against dictionaries."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mining.evaluation.tables import IdIndex

ids = st.lists(st.sampled_from(["", "a", "b", "aa", "ä", "a\0"]) | st.text(max_size=4), max_size=20)


@given(ids, ids)
def test_positions_equal_those_of_a_dictionary(known: list[str], asked: list[str]) -> None:
    positions: dict[str, int] = {}
    codes = [positions.setdefault(value, len(positions)) for value in known]
    index = IdIndex(known)
    assert index.codes.tolist() == codes
    assert index.ids.to_pylist() == list(positions)
    assert len(index) == len(positions)
    assert index.find(asked).tolist() == [positions.get(value, -1) for value in asked]


def test_many_ids_in_chunks() -> None:
    known = [f"de-{i}" for i in range(40_000)]
    index = IdIndex(pa.chunked_array([known[:7], known[7:], known[:3]]))
    assert len(index) == 40_000
    asked = pa.array([f"de-{i * 7 % 80_000}" for i in range(50_000)])
    expected = [i * 7 % 80_000 if i * 7 % 80_000 < 40_000 else -1 for i in range(50_000)]
    assert index.find(asked).tolist() == expected


def test_null_is_no_id() -> None:
    assert IdIndex(["", "a"]).find(pa.array(["a", None, ""])).tolist() == [1, -1, 0]
