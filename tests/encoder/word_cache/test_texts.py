"""Texts as UTF-8, from Python and from Arrow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.word_cache import texts as module
from mining.encoder.word_cache.texts import blocks, check_arrow, strings

TEXTS = ["bake", "", "Größe 漢字", "\0", "lomi " * 9]
TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def listed(texts: Any) -> list[str]:
    found = []
    for start, (data, offsets) in blocks(texts):
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


def test_blocks_end_by_texts_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_TEXTS", 3)
    monkeypatch.setattr(module, "BLOCK_BYTES", 10)
    sizes = [
        len(offsets) - 1 for _, (_, offsets) in blocks(pa.array(["a", "b", "c", "d", "x" * 30, "yyyyyy", "zzzzzz"]))
    ]
    assert sizes == [3, 1, 1, 1, 1]
    assert listed(TEXTS * 3) == TEXTS * 3


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
