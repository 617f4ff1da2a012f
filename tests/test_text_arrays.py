from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import cells as module
from mining.text_arrays import LARGEST, Utf8, check_arrow, strings, table_parts, text_array, utf8_blocks, whole


def test_lone_surrogates_become_replacements_and_nothing_else() -> None:
    assert whole("a\udce9b\ud800\u2028\U0001f600") == "a\ufffdb\ufffd\u2028\U0001f600"
    assert text_array(["a\udce9", None, ""]).to_pylist() == ["a\ufffd", None, ""]
    assert text_array(["ä", None]).type == text_array(["\ud800"]).type == pa.large_string()


@pytest.mark.parametrize(
    ("limit", "expected"), [(100, [6]), (9, [6]), (8, [5, 1]), (5, [4, 2]), (4, [2, 2, 2]), (3, [1, 1, 2, 1, 1])]
)
def test_no_column_of_a_part_holds_more_than_the_limit(limit: int, expected: list[int]) -> None:
    table = pa.table(
        {
            "a": pa.array(["ab", None, "cde", "", "fä", "x"], pa.large_string()),
            "n": pa.array(range(6)),
            "b": pa.array(["", "wxyz", "", "", "", ""], pa.large_string()),
        }
    )
    parts = table_parts(table, limit)
    assert [len(part) for part in parts] == expected
    assert pa.concat_tables(parts).equals(table)


def test_an_empty_table_is_one_part() -> None:
    assert [len(part) for part in table_parts(pa.table({"a": pa.array([], pa.large_string())}), 1)] == [0]


def test_the_limit_is_that_of_arrow() -> None:
    assert LARGEST == 2**31 - 1


def test_cells_beyond_the_limit_have_wide_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.frombuffer(b"abcdef", np.uint8).copy()
    cells = data, np.array([0, 2]), np.array([2, 6])
    assert module.strings(*cells).type == pa.string()
    monkeypatch.setattr("mining.corpus.cells.LARGEST", 6)
    assert module.strings(*cells).type == pa.string()
    monkeypatch.setattr("mining.corpus.cells.LARGEST", 5)
    assert module.strings(*cells).type == pa.large_string()
    assert module.strings(*cells).to_pylist() == ["ab", "cdef"]


TEXTS = ["bake", "", "Größe 漢字", "\0", "lomi " * 9]
TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def blocks(texts: Any, size: int) -> list[tuple[int, Utf8]]:
    """All texts, asked for so many at a time."""
    ranges = [(first, min(first + size, len(texts))) for first in range(0, len(texts), size)]
    return [block for first, last in ranges for block in utf8_blocks(texts, first, last)]


def listed(texts: Any, size: int = 1000) -> list[str]:
    found: list[str] = []
    for start, (data, offsets) in blocks(texts, size):
        assert start == len(found)
        assert data.dtype == np.uint8
        assert not data.flags.writeable
        found += [data[a:b].tobytes().decode() for a, b in pairwise(offsets)]
    return found


@given(st.lists(st.text(max_size=8), max_size=9))
def test_python_strings(texts: list[str]) -> None:
    assert listed(texts) == [text.encode("utf-8", "replace").decode() for text in texts]
    assert listed(tuple(texts)) == listed(texts)


@pytest.mark.parametrize("kind", TYPES)
def test_arrow_arrays(kind: pa.DataType) -> None:
    array = pa.array(TEXTS, kind)
    assert listed(array) == TEXTS
    assert listed(array.slice(1, 3)) == TEXTS[1:4]
    assert listed(array[:0]) == listed(array[1:2])[:0] == []
    assert listed(pa.chunked_array([array, array[:0], array.slice(2)])) == TEXTS + TEXTS[2:]
    assert strings(array.slice(2)) == TEXTS[2:]
    check_arrow(array)


def test_blocks_end_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mining.text_arrays.BLOCK_BYTES", 10)
    texts = pa.array(["a", "b", "c", "d", "x" * 30, "yyyyyy", "zzzzzz"])
    assert [len(block.offsets) - 1 for _, block in blocks(texts, 3)] == [3, 1, 1, 1, 1]
    assert [len(block.offsets) - 1 for _, block in blocks(texts, 7)] == [4, 1, 1, 1]
    for size in (1, 2, 100):
        assert listed(TEXTS * 3, size) == listed(pa.chunked_array([TEXTS, TEXTS * 2]), size) == TEXTS * 3


@pytest.mark.parametrize("kind", [str, np.str_])
def test_lone_surrogates_are_question_marks(kind: type[str]) -> None:
    assert listed([kind("a \ud800"), kind("b")]) == ["a ?", "b"]


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(TypeError, match="text 2 is bytes, not str"):
        listed(["a", "b", b"c"])
    with pytest.raises(TypeError, match="text 1 is NoneType, not str"):
        check_arrow(pa.chunked_array([["a"], [None]]))
    with pytest.raises(TypeError, match="array of strings, not of int64"):
        check_arrow(pa.array([1]))


def test_arrow_array_of_broken_utf8_is_refused() -> None:
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff"))
    with pytest.raises(ValueError, match="UTF8"):
        listed(broken)
