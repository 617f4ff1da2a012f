"""Sentencepiece models that texts may be cut into words for, and some for which they may not."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import sentencepiece

from mining.encoder import PieceTokenizer
from tests.encoder.conftest import made_up_sentences

SENTENCES = [
    *made_up_sentences(250),
    *[
        "Größe und Füße der Bäume",
        "les élèves français à l'école",
        "ΑΒΓ αβγ λόγος",
        "мир и война",
        "漢字 と かな",
        "ไทย",
    ]
    * 8,
    *["e\u0301 o\u0308 n\u0303 I\u0307 h\u0331", "don't stop, e.g. 3.14...", "?!?! !! -- “yes” „no“ …", "한국어 조선말"]
    * 8,
]


@pytest.fixture(scope="session")
def trained() -> Callable[..., PieceTokenizer]:
    """Train a small model with the trainer's options."""

    def train(**options: Any) -> PieceTokenizer:
        model = io.BytesIO()
        given = {"vocab_size": 260, "character_coverage": 0.998, "normalization_rule_name": "nmt_nfkc_cf", **options}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES),
            model_writer=model,
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
            **given,
        )
        return PieceTokenizer(model.getvalue())

    return train


@pytest.fixture(scope="session")
def lower(trained: Callable[..., PieceTokenizer]) -> PieceTokenizer:
    """A unigram model that makes capitals small."""
    return trained()


@pytest.fixture(scope="session")
def tokenizers(trained: Callable[..., PieceTokenizer], lower: PieceTokenizer) -> dict[str, PieceTokenizer]:
    """Models of every sort that texts may be cut into words for."""
    return {
        "lower": lower,
        "cased": trained(normalization_rule_name="nmt_nfkc"),
        "bpe": trained(model_type="bpe"),
        "characters": trained(model_type="char"),
        "bytes": trained(byte_fallback=True, vocab_size=600),
        "symbols": trained(user_defined_symbols=["don", "3.14"]),
    }
