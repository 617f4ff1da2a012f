from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.tokenizers import load_tokenizer
from mining.encoder.tokenizers._types import normalised
from mining.encoder.tokenizers.words import WordTokenizer, word_cutter
from tests.encoder.tokenizers.helpers import unpacked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Der Hund, 12 Katzen!", ["der", "hund", ",", "12", "katzen", "!"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("l'eau d\u2019or", ["l", "'", "eau", "d", "\u2019", "or"]),
        ("snake_case", ["snake", "_", "case"]),
        ("我们去Paris吧。", ["我", "们", "去", "paris", "吧", "。"]),
        ("カタカナと漢字", ["カ", "タ", "カ", "ナ", "と", "漢", "字"]),
        ("\uff21\uff22\uff23\uff11", ["abc1"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("e\u0301te\u0301", ["été"]),
        ("q\u0308 x", ["q\u0308", "x"]),
        ("a\u2028b\tc\x1cd", ["a", "b", "c", "d"]),
        ("...", [".", ".", "."]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert word_cutter()(normalised(text)) == words


@given(st.lists(st.text(alphabet="ab,漢\u0301 \n\u2028_\ud800", max_size=20), max_size=8))
def test_ids_equal_those_of_one_text_at_a_time(texts: list[str]) -> None:
    types = ["a", "b", ",", "漢", "?", "ab"]
    tokenizer = WordTokenizer(types)
    ids = {name: rank + 1 for rank, name in enumerate(types)}
    expected = []
    for text in texts:
        words = word_cutter()(normalised(text.replace("\n", " ")))
        known = [ids[word] for word in words if word in ids]
        expected.append(known or [0][: len(words)])
    assert unpacked(tokenizer(texts)) == expected


def test_many_texts_go_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = WordTokenizer(["a", "b"])
    texts = ["a b" * (number % 3) for number in range(50)]
    whole = unpacked(tokenizer(texts))
    monkeypatch.setattr("mining.encoder.tokenizers._types.BLOCK_CHARS", 5)
    assert unpacked(tokenizer(texts)) == whole


def test_file_gives_the_tokenizer_back() -> None:
    tokenizer = WordTokenizer(["b", "漢", "\u00a7", "\x00"])
    again = load_tokenizer("words", tokenizer.files(), tokenizer.settings())
    assert isinstance(again, WordTokenizer)
    assert again.types == tokenizer.types
    assert again.size == 5


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\nb", "truncated"),
        (b"", "truncated"),
        (b"a\n\xff\n", "not UTF-8"),
        (b"a\na\n", "twice"),
        (b"a b\n", "'a b' is not one word"),
        (b"a\n\nb\n", "'' is not one word"),
        (b"ab\nA b\n", "is not one word"),
    ],
)
def test_faulty_file_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_tokenizer("words", {"words.txt": data}, {})


def test_missing_file_is_named() -> None:
    with pytest.raises(ValueError, match=r"words\.txt is missing"):
        load_tokenizer("words", {}, {})


def test_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'syllables'"):
        load_tokenizer("syllables", {}, {})
