from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mining.filters._tokens import token_length
from mining.filters.equal_sides import equal_sides, folded
from mining.filters.trigram_overlap import trigram_overlap
from mining.training.data.read import text_key

TRICKY = st.text(st.sampled_from("aAbB1½™℃\u0301\u0345ß\u017f\u0131İéǆ_.- \u3000你好ｶﾞカガก\u1100\u1161"), max_size=6)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("one two  three", 3),
        (" one\u00a0two ", 2),
        ("", 0),
        ("Größe über", 2),
        ("你好世界", 2),
        ("你", 1),
        ("我喜欢 Python 编程", 4),
        ("カタカナ ひらがな", 4),
        ("ภาษาไทย", 4),
        ("한국어 문장", 2),
    ],
)
def test_token_length(text: str, length: int) -> None:
    assert token_length(text) == length


@pytest.mark.parametrize(
    ("source", "target", "equal"),
    [
        ("Open File...", "open file", True),
        ("\uff21\uff22\uff23", "abc", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("Straße", "STRASSE", True),
        ("!!!", "???", True),
        ("100 °C", "100 ℃", True),
        ("Open", "Offen", False),
        ("Hello", "مرحبا", False),
        ("42", "43", False),
        ("caf\u00e9", "cafe", False),
    ],
)
def test_equal_sides(source: str, target: str, equal: bool) -> None:
    assert equal_sides(source, target) is equal


@given(TRICKY, TRICKY)
@example("e\u0301", "é")
@example("™a", "tm a")
@example("\u017f", "s")
def test_the_look_at_the_beginning_changes_nothing(source: str, target: str) -> None:
    assert equal_sides(source, target) is (folded(source) == folded(target))


@given(st.text(max_size=12))
def test_a_text_equals_itself_without_case(text: str) -> None:
    assert equal_sides(text, f" {text.casefold()}!")


@pytest.mark.parametrize(
    ("source", "target", "overlap"),
    [
        ("a b c d", "A B C D", 1.0),
        ("a b c d", "a b c x", 0.5),
        ("a b c", "x a b c d e f", 1.0),
        ("a b", "a b", 0.0),
        ("a b c a b c", "a b c", 1.0),
        ("a b c", "c b a", 0.0),
        ("我喜欢你", "我喜欢他", 0.5),
    ],
)
def test_trigram_overlap(source: str, target: str, overlap: float) -> None:
    assert trigram_overlap(source, target) == trigram_overlap(target, source) == overlap


def test_keys_of_equal_texts() -> None:
    assert text_key("Hello  World") == text_key(" hello world\u3000")
    assert text_key("hello world") != text_key("hello, world")
