"""Compiled segmentation against sentencepiece itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import PieceTokenizer, Tokens
from mining.encoder.word_cache import word_rules
from mining.encoder.word_cache.proof import WordRules
from mining.encoder.word_cache.segment import Segmenter, UnigramSegmenter, segmenter
from tests.encoder.word_cache.conftest import SENTENCES

NAMES = ["lower", "cased", "bpe", "characters", "bytes", "symbols"]
LETTERS = "bakelominutisoräöüßéλω漢字ไทยмиABCIHÄ.,!?'-\u0301\u0308\u0331\u0307\u00a8\u00a0" + (
    "\u2581\u200b\u00ad\u0640\u064e\ufe77\u3164\ufb01\ufdfa\u1100\u1161\0😀"
)
WORDS = st.lists(st.one_of(st.text(alphabet=LETTERS, max_size=30), st.text(max_size=8)), max_size=8)


def by(tokenizer: PieceTokenizer) -> Segmenter:
    rules = word_rules(tokenizer.applied)
    assert isinstance(rules, WordRules)
    return segmenter(tokenizer, rules)


def packed(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [word.encode() for word in words]
    return np.frombuffer(b"".join(data), np.uint8).copy(), np.cumsum([0, *map(len, data)])


def assert_same(found: Tokens, expected: Tokens) -> None:
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.ids.dtype == np.int32


@pytest.mark.parametrize("name", NAMES)
def test_unigram_models_are_compiled(tokenizers: dict[str, PieceTokenizer], name: str) -> None:
    assert isinstance(by(tokenizers[name]), UnigramSegmenter) == (name in {"lower", "cased"})


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(words=WORDS)
def test_pieces_are_sentencepieces_own(tokenizers: dict[str, PieceTokenizer], name: str, words: list[str]) -> None:
    words = [word.encode("utf-8", "replace").decode().replace(" ", "") for word in words]
    found = by(tokenizers[name])(*packed(words))
    assert_same(found, tokenizers[name].all_pieces(words))


@pytest.mark.parametrize("name", ["lower", "cased"])
def test_every_character_is_normalised_as_sentencepiece_does(tokenizers: dict[str, PieceTokenizer], name: str) -> None:
    words = [f"b{chr(code)}k" for code in range(0x11000) if not 0xD800 <= code < 0xE000 and code != 0x20]
    assert_same(by(tokenizers[name])(*packed(words)), tokenizers[name].all_pieces(words))


def test_many_words_are_segmented_in_one_call(lower: PieceTokenizer) -> None:
    words = [word for sentence in SENTENCES * 4 for word in sentence.split(" ")]
    assert_same(by(lower)(*packed(words)), lower.all_pieces(words))


def test_words_that_grow_are_given_room(lower: PieceTokenizer) -> None:
    words = ["\ufdfa" * 40] * 30
    assert_same(by(lower)(*packed(words)), lower.all_pieces(words))
