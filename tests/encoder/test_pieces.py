from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.pieces import PieceTokenizer, Tokens

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=8)


def packed(lists: list[list[int]]) -> Tokens:
    flat = np.array([value for one in lists for value in one], np.int32)
    return Tokens(flat, np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64))


def unpacked(pieces: Tokens) -> list[list[int]]:
    bounds = zip(pieces.offsets[:-1], pieces.offsets[1:], strict=True)
    return [pieces.ids[start:stop].tolist() for start, stop in bounds]


@given(LISTS, st.data())
def test_take_equals_list_indexing(lists: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    taken = packed(lists).take(np.array(rows, np.int64))
    assert unpacked(taken) == [lists[row] for row in rows]


@given(LISTS, st.integers(1, 4))
def test_truncate_equals_list_slicing(lists: list[list[int]], limit: int) -> None:
    assert unpacked(packed(lists).truncate(limit)) == [one[:limit] for one in lists]


def test_unknown_pieces_are_left_out(tokenizer: PieceTokenizer) -> None:
    plain, mixed = unpacked(tokenizer(["bake lomi", "bake 漢字 lomi"]))
    assert tokenizer.unknown not in mixed
    assert [piece for piece in mixed if piece in plain] == plain


def test_text_of_unknown_pieces_only_is_one_unknown_piece(tokenizer: PieceTokenizer) -> None:
    assert unpacked(tokenizer(["漢字", "漢 字 漢", "bake", ""]))[:2] == [[tokenizer.unknown]] * 2


def test_texts_without_content_have_no_pieces(tokenizer: PieceTokenizer) -> None:
    assert unpacked(tokenizer(["", "   ", "\t\n"])) == [[], [], []]


def test_case_and_width_are_folded(tokenizer: PieceTokenizer) -> None:
    lower, upper, wide = unpacked(tokenizer(["bake", "BAKE", "\uff22\uff21\uff2b\uff25"]))
    assert lower == upper == wide


def test_lone_surrogate_is_read_as_a_question_mark(tokenizer: PieceTokenizer) -> None:
    broken, mark = unpacked(tokenizer(["bake \ud800", "bake ?"]))
    assert broken == mark


@pytest.mark.parametrize("texts", ["bake", b"bake"])
def test_one_text_in_place_of_a_list_is_refused(tokenizer: PieceTokenizer, texts: object) -> None:
    with pytest.raises(TypeError, match="sequence of texts"):
        tokenizer(texts)  # type: ignore[arg-type]


def test_element_that_is_no_text_is_named(tokenizer: PieceTokenizer) -> None:
    with pytest.raises(TypeError, match="text 1 is NoneType"):
        tokenizer(["bake", None])  # type: ignore[list-item]
