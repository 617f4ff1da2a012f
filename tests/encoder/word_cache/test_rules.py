"""For which sentencepiece models a text may be cut into words."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
import sentencepiece

from mining.encoder import PieceTokenizer
from mining.encoder.proto import USER_DEFINED, read_facts
from mining.encoder.word_cache import word_rules
from mining.encoder.word_cache.proof import Charsmap, WordRules, read_charsmap

NAMES = ["lower", "cased", "bpe", "characters", "bytes", "symbols"]
Train = Callable[..., PieceTokenizer]


@pytest.mark.parametrize("name", NAMES)
def test_models_of_white_space_words_are_accepted(tokenizers: dict[str, PieceTokenizer], name: str) -> None:
    rules = word_rules(tokenizers[name].model)
    assert isinstance(rules, WordRules)
    assert {chr(byte) for byte in np.flatnonzero(rules.splits)} == set(" \t\n\f\r")
    assert rules.folds == (name in {"lower", "bpe", "characters", "bytes"})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"treat_whitespace_as_suffix": True}, "at its end"),
        ({"add_dummy_prefix": False}, "one boundary before each word"),
        ({"remove_extra_whitespaces": False}, "one boundary before each word"),
        ({"split_by_whitespace": False}, "goes beyond a word"),
        ({"user_defined_symbols": ["bake lomi"]}, "goes beyond a word"),
        ({"user_defined_symbols": ["x\u2581y"]}, "goes beyond a word"),
        ({"user_defined_symbols": ["\u2581y"]}, "goes beyond a word"),
        ({"normalization_rule_name": "identity"}, "U+2581"),
        ({"normalization_rule_name": "nfkc"}, "U+2581"),
    ],
)
def test_other_models_are_refused_with_the_reason(trained: Train, options: dict[str, object], reason: str) -> None:
    found = word_rules(trained(**options).model)
    assert isinstance(found, str)
    assert reason in found


def test_rule_across_a_space_is_refused(tmp_path: object, trained: Train) -> None:
    rules = f"{tmp_path}/rules.tsv"
    with open(rules, "w", encoding="utf-8") as file:
        file.write("2581\t20\n20 301\tB4\n")
    found = word_rules(trained(normalization_rule_name="", normalization_rule_tsv=rules).model)
    assert found == "its normalisation has rules across a space"


def test_byte_of_a_longer_rule_does_not_split(tmp_path: object, trained: Train) -> None:
    rules = f"{tmp_path}/rules.tsv"
    with open(rules, "w", encoding="utf-8") as file:
        file.write("2581\t20\n9\t20\nA\t20\nD\t20\nD A\t2F\n41\t61\n")
    found = word_rules(trained(normalization_rule_name="", normalization_rule_tsv=rules).model)
    assert isinstance(found, WordRules)
    assert {chr(byte) for byte in np.flatnonzero(found.splits)} == {" ", "\t"}
    assert not found.folds


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_what_sentencepiece_says(tokenizers: dict[str, PieceTokenizer], name: str) -> None:
    model = tokenizers[name].model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    facts = read_facts(model)
    assert [piece.text.decode() for piece in facts.pieces] == [processor.id_to_piece(i) for i in range(len(processor))]
    assert [piece.score for piece in facts.pieces] == [processor.get_score(i) for i in range(len(processor))]
    assert facts.byte_fallback == (name == "bytes")
    assert facts.model_type == {"bpe": 2, "characters": 4}.get(name, 1)
    own = [piece.text for piece in facts.pieces if piece.kind == USER_DEFINED]
    assert own == ([b"don", b"3.14"] if name == "symbols" else [])


def test_broken_file_is_refused(lower: PieceTokenizer) -> None:
    found = word_rules(lower.model[:-20])
    assert isinstance(found, str)
    assert found.startswith("its file cannot be read")


@pytest.mark.parametrize("blob", [b"\0\0\0\0", struct.pack("<I", 1024) + b"\xff" * 1024 + b"x\0", b"\x00\x04\0\0abc"])
def test_broken_rules_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="rules of normalisation"):
        read_charsmap(blob)


def charsmap(tokenizer: PieceTokenizer) -> Charsmap:
    return read_charsmap(read_facts(tokenizer.model).charsmap)


def test_keys_are_what_normalisation_replaces(lower: PieceTokenizer) -> None:
    found = charsmap(lower)
    processor = sentencepiece.SentencePieceProcessor(model_proto=lower.model)
    places = np.random.default_rng(1).integers(0, len(found.starts), 300)
    for place in places:
        key = found.keys[found.ends[place] : found.ends[place + 1]].tobytes()
        value = found.replacement(int(found.starts[place]))
        expected = " ".join(f"x{value.decode()}x".split(" "))
        assert processor.normalize(f"x{key.decode()}x").replace("\u2581", " ")[1:] == expected
        assert found.find(key) == value or found.keys.tobytes().find(key) < found.ends[place]
        assert len(value.replace(b" ", b"...")) <= found.growth() * len(key)


def test_single_bytes_and_folding(lower: PieceTokenizer, tokenizers: dict[str, PieceTokenizer]) -> None:
    single = charsmap(lower).single()
    assert single[b"\t"] == b" "
    assert single[b"Q"] == b"q"
    assert single[b"\x01"] == b""
    assert charsmap(lower).folds_ascii()
    assert not charsmap(tokenizers["cased"]).folds_ascii()
    assert charsmap(lower).find(b"no key at all") is None


def test_without_rules_nothing_is_replaced() -> None:
    found = read_charsmap(b"")
    assert found.single() == {}
    assert found.growth() == 3
    assert not found.folds_ascii()
