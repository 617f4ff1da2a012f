"""A text and its copy with characters that no reader sees have the same vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sentencepiece

from mining.encoder import PieceTokenizer, SentenceEncoder, Tokenizer
from mining.encoder.tokenizers._types import normalised
from mining.unseen import UNSEEN, UNSEEN_BYTES, without_unseen
from tests.encoder.conftest import made_up_sentences, random_network, tokenizers_of
from tests.encoder.word_cache.conftest import SENTENCES

FORMS = {
    "ba\ufe77ke": "bake",  # tatweel with fatha
    "ba\ufc60ke": "ba ke",  # shadda with fatha, standing alone
    "ba\uffa0ke": "bake",
    "\ufb2a": "\u05e9",  # shin with its dot
    "\u0627\u064b\u0653": "\u0622",
}
"""Characters that normalisation takes apart into unseen ones, and what is left."""


@pytest.mark.parametrize("name", ["lower", "cased", "bpe", "characters", "bytes", "symbols", "identity", "nfkc"])
def test_pieces_are_those_of_the_text_without_them(
    tokenizers: dict[str, PieceTokenizer], trained: Callable[..., PieceTokenizer], name: str
) -> None:
    tokenizer = tokenizers[name] if name in tokenizers else trained(normalization_rule_name=name)
    texts = [f"{character}ba{character}ke lomi{character} {character} so{character}{character}" for character in UNSEEN]
    expected = tokenizer(["bake lomi so"]).ids.tolist()
    found = tokenizer(texts)
    assert [found.ids[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)] == [
        expected
    ] * len(texts)
    assert not len(tokenizer(list(UNSEEN)).ids)


def test_forms_come_apart_first(tokenizers: dict[str, PieceTokenizer]) -> None:
    for text, plain in FORMS.items():
        assert normalised(text).split() == plain.split()
        if not text.startswith("\u0627"):
            assert tokenizers["lower"]([text]).ids.tolist() == tokenizers["lower"]([plain]).ids.tolist()


@pytest.mark.parametrize("kind", ["words", "trigrams", "ngrams"])
def test_other_units_are_those_of_the_text_without_them(all_tokenizers: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = all_tokenizers[kind]
    texts = [f"{character}ba{character}ke lomi{character} {character}so" for character in UNSEEN]
    expected = tokenizer(["bake lomi so"]).ids.tolist()
    assert expected
    assert tokenizer(texts).ids.tolist() == expected * len(texts)
    assert not len(tokenizer(list(UNSEEN)).ids)


@pytest.mark.parametrize("name", ["sp", "word", "trigram", "charagram", "lstm"])
def test_vectors_are_the_same_bytes(all_tokenizers: dict[str, Tokenizer], name: str) -> None:
    tokenizers = tokenizers_of(name, all_tokenizers)
    encoder = SentenceEncoder(random_network(name, tokenizers), tokenizers, name)
    plain = made_up_sentences(20, seed=4)
    hyphenated = ["\u00ad".join(text) for text in plain]
    vectors, valid = encoder.encode(plain)
    assert valid.all()
    found, usable = encoder.encode(hyphenated)
    assert usable.all()
    np.testing.assert_array_equal(found, vectors)


def test_other_texts_are_cut_as_the_models_own_rules_say(lower: PieceTokenizer) -> None:
    own = sentencepiece.SentencePieceProcessor(model_proto=lower.model)
    texts = [*SENTENCES, "ﷺ ½ ﬁn", "a\u0301\u0653", "\u05d0\u05be\u05d1"]
    assert not any(UNSEEN_BYTES.search(text.encode()) for text in texts)
    assert lower.all_pieces(texts).ids.tolist() == [number for ids in own.encode(texts) for number in ids]


def test_what_is_unseen() -> None:
    assert (
        "".join(
            character
            for character in "\u00adא\u0640ب\u064e\u0653\u0670\u05be\u200b\u200f\ufe0f\ufeff\u05b0 -"
            if character in UNSEEN
        )
        == "\u00ad\u0640\u064e\u0670\u200b\u200f\ufe0f\ufeff\u05b0"
    )
    assert list(UNSEEN) == sorted(set(UNSEEN))
    assert without_unseen("", "".join(UNSEEN) + "a") == "a"
    assert UNSEEN_BYTES.sub(b"", "".join(UNSEEN).encode()) == b""
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert [character for character in every if not without_unseen("", character)] == list(UNSEEN)
    assert UNSEEN_BYTES.sub(b"", "".join(every).encode()) == without_unseen("", "".join(every)).encode()
