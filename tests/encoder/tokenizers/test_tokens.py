from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.tokens import Tokens
from tests.encoder.tokenizers.helpers import unpacked

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=8)


def packed(lists: list[list[int]]) -> Tokens:
    flat = np.array([value for one in lists for value in one], np.int32)
    return Tokens(flat, np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64))


@given(LISTS, st.data())
def test_take_equals_list_indexing(lists: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    taken = packed(lists).take(np.array(rows, np.int64))
    assert unpacked(taken) == [lists[row] for row in rows]


@given(LISTS, st.integers(1, 4))
def test_truncate_equals_list_slicing(lists: list[list[int]], limit: int) -> None:
    assert unpacked(packed(lists).truncate(limit)) == [one[:limit] for one in lists]


@given(LISTS)
def test_lists_make_the_flat_array(lists: list[list[int]]) -> None:
    made, slow = Tokens.of(lists), packed(lists)
    assert (made.ids.dtype, made.offsets.dtype) == (np.int32, np.int64)
    assert (made.ids.tolist(), made.offsets.tolist()) == (slow.ids.tolist(), slow.offsets.tolist())


@given(st.lists(LISTS, max_size=4))
def test_joined_parts_are_all_their_texts(parts: list[list[list[int]]]) -> None:
    joined = Tokens.joined([packed(part) for part in parts])
    assert unpacked(joined) == [one for part in parts for one in part]


def slow_known(ids: list[int], unknown: int, empty: int) -> list[int]:
    known = [one for one in ids if one != unknown]
    return [unknown] if unknown in ids and not [one for one in known if one != empty] else known


@given(LISTS, st.integers(0, 2), st.sampled_from([-1, 1, 3]))
def test_unknown_tokens_are_left_out_unless_a_text_has_no_others(
    lists: list[list[int]], unknown: int, empty: int
) -> None:
    if unknown != empty:
        assert unpacked(packed(lists).known(unknown, empty)) == [slow_known(one, unknown, empty) for one in lists]
