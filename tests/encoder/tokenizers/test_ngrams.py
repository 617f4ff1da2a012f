from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.tokenizers import load_tokenizer
from mining.encoder.tokenizers._types import normalised
from mining.encoder.tokenizers.ngrams import CodeTable, NgramTokenizer
from mining.encoder.tokenizers.trigrams import TrigramTokenizer
from tests.encoder.tokenizers.helpers import unpacked

TEXT = st.text(alphabet="abcd漢 \n\u2028\u2581\U0001f600\ud800", max_size=15)


def slow_ngrams(text: str, sizes: list[int]) -> list[str]:
    """All n-grams by place, the shorter first."""
    cleaned = " ".join(normalised(text).replace("\u2581", " ").split())
    padded = f" {cleaned} " if cleaned else ""
    return [
        padded[start : start + size] for start in range(len(padded)) for size in sizes if start + size <= len(padded)
    ]


@given(st.lists(TEXT, max_size=8), st.lists(TEXT, max_size=4), st.sampled_from([[3], [2, 3, 4], [1], [2, 4]]))
def test_ids_equal_the_slow_ones(texts: list[str], others: list[str], sizes: list[int]) -> None:
    types = sorted({gram for text in [*texts[::2], *others] for gram in slow_ngrams(text, sizes)})
    tokenizer = NgramTokenizer(types, sizes)
    ids = {name: rank + 1 for rank, name in enumerate(types)}
    expected = []
    for text in texts:
        grams = slow_ngrams(text, sizes)
        known = [ids[gram] for gram in grams if gram in ids]
        # A text may be too short for its only n-gram size, but never for one of all three.
        expected.append(known or [0][: len(slow_ngrams(text, [1]))])
    assert unpacked(tokenizer(texts)) == expected


def test_many_texts_go_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = NgramTokenizer(["ab", " a", "b "], [2, 3, 4])
    texts = ["ab" * (number % 3) for number in range(50)]
    whole = unpacked(tokenizer(texts))
    monkeypatch.setattr("mining.encoder.tokenizers._types.BLOCK_CHARS", 5)
    assert unpacked(tokenizer(texts)) == whole


@pytest.mark.parametrize(("kind", "types"), [("trigrams", [" a ", "a b", "漢字x"]), ("ngrams", [" a", "abc", "a b "])])
def test_file_gives_the_tokenizer_back(kind: str, types: list[str]) -> None:
    tokenizer = TrigramTokenizer(types) if kind == "trigrams" else NgramTokenizer(types)
    assert tokenizer.kind == kind
    again = load_tokenizer(kind, tokenizer.files(), tokenizer.settings())
    assert isinstance(again, NgramTokenizer)
    assert (again.types, again.sizes) == (tokenizer.types, tokenizer.sizes)


@pytest.mark.parametrize(
    ("data", "sizes", "reason"),
    [
        (b"abc\nab\n", [3], "'ab' has 2 characters, not 3"),
        (b"abc", [3], "truncated"),
        (b"abc\n", [5], "sizes are 1 to 4"),
        (b"abc\n", [2, 3], "trigrams of 2 or 3 characters"),
    ],
)
def test_faulty_file_is_refused(data: bytes, sizes: list[int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_tokenizer("trigrams", {"trigrams.txt": data}, {"sizes": sizes})


def test_too_many_characters_are_refused() -> None:
    types = [chr(place) for place in range(0x20000, 0x20000 + 65_535)]
    with pytest.raises(ValueError, match="65535 distinct characters"):
        NgramTokenizer(types, [1])
    assert NgramTokenizer(types[:-1], [1])([types[-2]]).ids.tolist() == [65_534]


@given(st.sets(st.integers(1, 2**64 - 1), max_size=60), st.lists(st.integers(0, 2**64 - 1), max_size=60))
def test_table_of_codes_finds_what_is_in_it(codes: set[int], others: list[int]) -> None:
    stored = sorted(codes)
    table = CodeTable(np.array(stored, np.uint64))
    asked = [*stored, *others]
    expected = [stored.index(code) + 1 if code in codes else 0 for code in asked]
    assert table.find(np.array(asked, np.uint64)).tolist() == expected


def test_codes_that_share_a_slot_are_told_apart() -> None:
    table = CodeTable(np.arange(1, 9, dtype=np.uint64) << np.uint64(60))
    assert table.find(np.arange(0, 11, dtype=np.uint64) << np.uint64(60)).tolist()[:9] == list(range(9))
