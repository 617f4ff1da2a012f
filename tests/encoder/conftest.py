"""Made-up sentences, a small vocabulary of each kind of unit, and model folders with random
vectors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from mining.config.network import NetworkSettings
from mining.encoder import (
    PieceTokenizer,
    SentenceEncoder,
    Tokenizer,
    load_encoder,
    save_model,
)
from mining.encoder.networks import Network, fresh_network
from mining.encoder.tokenizers.ngrams import NgramSettings
from mining.encoder.tokenizers.pieces import PieceSettings
from mining.encoder.tokenizers.trigrams import TrigramSettings
from mining.encoder.tokenizers.words import WordSettings

SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "ra", "so", "ti"]
ARCHITECTURES = {
    "sp": {},
    "word": {"tokens": ["words"]},
    "trigram": {"tokens": ["trigrams"]},
    "sum": {"tokens": ["pieces", "words", "trigrams"]},
    "concatenation": {"tokens": ["pieces", "trigrams"], "combine": "concatenate"},
    "projection": {"tokens": ["pieces", "words"], "projection": 10},
    "charagram": {"kind": "charagram", "tokens": ["ngrams"]},
    "lstm": {"kind": "lstm", "hidden": 6},
    "word-lstm": {"kind": "lstm", "tokens": ["words"], "hidden": 6},
}
"""By name, settings of a network; each has vectors of 12 numbers a unit."""


def made_up_sentences(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(80)]
    return [" ".join(chance.choices(words, k=chance.randint(2, 9))) for _ in range(count)]


@pytest.fixture(scope="session")
def pieces_model() -> bytes:
    return PieceSettings(vocabulary=90, character_coverage=1.0).train(made_up_sentences(300))


@pytest.fixture(scope="session")
def tokenizer(pieces_model: bytes) -> PieceTokenizer:
    return PieceTokenizer(pieces_model)


@pytest.fixture(scope="session")
def all_tokenizers(tokenizer: PieceTokenizer) -> dict[str, Tokenizer]:
    """One unit of each kind, by kind."""
    sentences = made_up_sentences(300)
    tokenizers = [
        tokenizer,
        WordSettings(types=70).learn(sentences),
        TrigramSettings(types=90).learn(sentences),
        NgramSettings().learn(sentences),
    ]
    return {unit.kind: unit for unit in tokenizers}


def random_network(name: str, tokenizers: Sequence[Tokenizer], languages: int = 1) -> Network:
    """A network of `ARCHITECTURES` with random parameters."""
    settings = NetworkSettings.model_validate({"dim": 12, **ARCHITECTURES[name]})
    network = fresh_network(settings, [tokenizer.size * languages for tokenizer in tokenizers], 0.5, seed=3)
    generator = torch.Generator().manual_seed(7)
    for weight in network.weights.values():
        # A bias of zeros or an identity would hide a mistake.
        weight.add_(torch.rand(weight.shape, generator=generator) - 0.5)
    return network


def tokenizers_of(name: str, all_tokenizers: dict[str, Tokenizer]) -> list[Tokenizer]:
    """The tokenizers that the architecture `name` works on."""
    return [all_tokenizers[kind] for kind in ARCHITECTURES[name].get("tokens", ["pieces"])]


@pytest.fixture(scope="session")
def model(all_tokenizers: dict[str, Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an SP model with random vectors."""
    folder = tmp_path_factory.mktemp("model") / "model"
    tokenizers = tokenizers_of("sp", all_tokenizers)
    save_model(folder, random_network("sp", tokenizers), tokenizers, languages=["aa", "bb"])
    return folder


@pytest.fixture(scope="session")
def encoder(model: Path) -> SentenceEncoder:
    return load_encoder(model)
