"""Tokens found word by word against sentencepiece, whatever the table of words holds."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import PieceTokenizer, Tokens
from mining.encoder.word_cache import CachedPieces, word_rules
from mining.encoder.word_cache.proof import WordRules
from mining.encoder.word_cache.table import WordTable
from mining.text_arrays import utf8_blocks
from tests.encoder.word_cache.conftest import SENTENCES
from tests.encoder.word_cache.test_segment import LETTERS

NAMES = ["lower", "cased", "bpe", "characters", "bytes", "symbols"]
BLANKS = [chr(code) for code in range(0x11000) if chr(code).isspace()] + ["\u200b", "\ufeff", "\u2581", "\u180e", "\0"]
SMALL = 2500
"""Bytes of a table that is full after a few words."""
WORD = st.one_of(
    st.sampled_from(["bake", "Bake", "BAKE", "lomi", "nusora", "Größe", "größe" + "漢字" * 12, "ไทย", "?", "▁"]),
    st.text(alphabet=LETTERS + " ", max_size=24),
    st.text(alphabet="ba", min_size=60, max_size=70),
    st.text(max_size=6),
)
TEXT = st.builds(
    lambda words, blank: blank.join(words), st.lists(WORD, max_size=8), st.sampled_from([" ", "  ", *BLANKS])
)
TEXTS = st.lists(TEXT, max_size=12)


def finder(tokenizer: PieceTokenizer, memory: int = 1 << 20, spread: int = (1 << 64) - 1) -> CachedPieces:
    rules = word_rules(tokenizer.model)
    assert isinstance(rules, WordRules)
    found = CachedPieces(tokenizer, rules)
    found.table = WordTable(rules.splits, rules.folds, memory, spread)
    return found


def find(finder: CachedPieces, texts: list[str]) -> list[list[int]]:
    return [one for _, block in utf8_blocks(texts, 0, len(texts)) for one in listed(finder(block))]


def listed(pieces: Tokens) -> list[list[int]]:
    return [one.tolist() for one in np.split(pieces.ids, pieces.offsets[1:-1])] if len(pieces.offsets) > 1 else []


def slow(tokenizer: PieceTokenizer, text: str) -> list[int]:
    """The rule for unknown pieces over the pieces of each word."""
    rules = word_rules(tokenizer.model)
    assert isinstance(rules, WordRules)
    for byte in np.flatnonzero(rules.splits):
        text = text.replace(chr(byte), " ")
    ids = tokenizer.all_pieces(text.encode("utf-8", "replace").decode().split(" ")).ids.tolist()
    known = [number for number in ids if number != tokenizer.unknown]
    nothing_known = all(number == tokenizer.boundary for number in known)
    return [tokenizer.unknown] if nothing_known and len(known) < len(ids) else known


def assert_same_but_for_ties(tokenizer: PieceTokenizer, found: list[list[int]], expected: list[list[int]]) -> None:
    """Two segmentations may be equally probable up to rounding, which depends on what stands
    before."""
    for one, other in zip(found, expected, strict=True):
        if one != other:
            scores = [sum(tokenizer._processor.get_score(number) for number in ids) for ids in (one, other)]
            assert scores[0] == pytest.approx(scores[1], rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(texts=TEXTS, memory=st.sampled_from([0, SMALL, 1 << 20]), spread=st.sampled_from([0, 1 << 40, (1 << 64) - 1]))
def test_pieces_do_not_depend_on_the_table(
    tokenizers: dict[str, PieceTokenizer], name: str, texts: list[str], memory: int, spread: int
) -> None:
    tokenizer = tokenizers[name]
    words = finder(tokenizer, memory, spread)
    expected = [slow(tokenizer, text) for text in texts]
    for _ in range(3):
        assert find(words, texts) == expected
    assert words.statistics.memory <= max(memory, WordTable(np.zeros(256, bool), False).statistics.memory)


@settings(max_examples=100)
@given(texts=TEXTS)
def test_pieces_are_those_of_the_whole_text(lower: PieceTokenizer, texts: list[str]) -> None:
    whole = [text.encode("utf-8", "replace").decode() for text in texts]
    assert_same_but_for_ties(lower, find(finder(lower), texts), listed(lower(whole)))


@pytest.mark.parametrize("name", NAMES)
def test_white_space_of_every_kind(tokenizers: dict[str, PieceTokenizer], name: str) -> None:
    tokenizer = tokenizers[name]
    texts = [
        text for blank in BLANKS for text in (f"bake{blank}lomi", f"{blank}bake {blank} lomi{blank}", blank, blank * 3)
    ]
    texts += [
        f"bake {mark}lomi{mark} {mark}" for mark in "\u0301\u0308\u00a8\u00b4\u0331\u00af\u2017\u203e\u200d\ufe0f"
    ]
    assert find(finder(tokenizer), texts) == listed(tokenizer(texts))


def test_real_sentences(tokenizers: dict[str, PieceTokenizer]) -> None:
    for tokenizer in tokenizers.values():
        assert_same_but_for_ties(tokenizer, find(finder(tokenizer), SENTENCES), listed(tokenizer(SENTENCES)))


def test_a_word_that_is_missed_often_is_segmented_once(lower: PieceTokenizer) -> None:
    texts = SENTENCES * 3
    assert find(finder(lower), texts) == [slow(lower, text) for text in texts]


def test_callers_at_the_same_time_find_the_same(lower: PieceTokenizer) -> None:
    words, wrong = finder(lower, memory=4000), []
    expected = [slow(lower, text) for text in SENTENCES]

    def call(shift: int) -> None:
        order = SENTENCES[shift:] + SENTENCES[:shift]
        for _ in range(5):
            if find(words, order) != expected[shift:] + expected[:shift]:
                wrong.append(shift)

    callers = [threading.Thread(target=call, args=(40 * number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    assert words.statistics.cleared > 0


def test_capitals_share_an_entry_where_the_model_makes_no_difference(tokenizers: dict[str, PieceTokenizer]) -> None:
    texts = ["bake Bake BAKE bakebakebakebakebake BakeBakeBakeBakeBake"]
    for name, distinct in (("lower", 3), ("cased", 5)):
        words = finder(tokenizers[name])
        find(words, texts)
        assert words.statistics.words == distinct


def test_statistics_count_words_and_hits(lower: PieceTokenizer) -> None:
    words = finder(lower)
    assert words.statistics.hit_rate == 0
    find(words, ["bake lomi bake", "漢" * 30])
    assert words.statistics[:3] == (4, 0, 2)
    find(words, ["bake", "nu"])
    assert words.statistics[:3] == (6, 1, 3)
    assert words.statistics.hit_rate == pytest.approx(1 / 6)


def test_full_table_begins_anew_and_follows_the_text(lower: PieceTokenizer) -> None:
    words = finder(lower, memory=SMALL)
    for start in range(0, 400, 20):
        find(words, [f"w{number}" for number in range(start, start + 20)])
    assert words.statistics.cleared > 0
    assert 0 < words.statistics.words < 100
    before = words.statistics.hits
    find(words, [f"w{number}" for number in range(380, 400)])
    assert words.statistics.hits == before + 20


def test_table_smaller_than_a_block_keeps_a_part(lower: PieceTokenizer) -> None:
    words = finder(lower, memory=SMALL)
    find(words, [f"w{number}" for number in range(2000)])
    assert 0 < words.statistics.words < 100
    assert words.statistics.memory <= SMALL


def test_model_that_is_not_of_words_gives_the_reason(lower: PieceTokenizer) -> None:
    assert isinstance(CachedPieces.of(lower), CachedPieces)

    class Other:
        applied = b""

    assert isinstance(CachedPieces.of(Other()), str)  # type: ignore[arg-type]
