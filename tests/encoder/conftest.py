"""A small sentencepiece model, a model folder with random vectors, and a typer application of one command."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from mining.encoder import PieceTokenizer, SpEncoder, load_encoder, save_model
from mining.training.vocabulary import train_vocabulary

SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "ra", "so", "ti"]


def made_up_sentences(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(80)]
    return [" ".join(chance.choices(words, k=chance.randint(2, 9))) for _ in range(count)]


@pytest.fixture(scope="session")
def pieces_model() -> bytes:
    return train_vocabulary(made_up_sentences(300), 90, character_coverage=1.0, lowercase=True)


@pytest.fixture(scope="session")
def tokenizer(pieces_model: bytes) -> PieceTokenizer:
    return PieceTokenizer(pieces_model)


@pytest.fixture(scope="session")
def model(pieces_model: bytes, tokenizer: PieceTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    table = torch.randn((tokenizer.size, 12), generator=torch.Generator().manual_seed(3))
    save_model(folder, table, pieces_model, lowercase=True, languages=["aa", "bb"])
    return folder


@pytest.fixture(scope="session")
def encoder(model: Path) -> SpEncoder:
    loaded = load_encoder(model)
    assert isinstance(loaded, SpEncoder)
    return loaded
