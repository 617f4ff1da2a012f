"""A tiny model and sentences for it."""

import io
from pathlib import Path

import pytest
import sentencepiece
import torch

from mining.corpus import Row
from mining.encoder import Encoder, PieceTokenizer, load_encoder, save_model, write_vectors
from mining.encoder.networks.average import AverageNetwork

ENGLISH = ["red", "green", "blue", "house", "tree", "river", "stone", "bird"]
GERMAN = ["rot", "grün", "blau", "haus", "baum", "fluss", "stein", "vogel"]
WORDS = ENGLISH + GERMAN
SENTENCES = [f"{a} {b} {c}" for a in WORDS for b in WORDS[::3] for c in WORDS[::5]]


def make_model(folder: Path, dim: int = 16, seed: int = 0) -> Path:
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=pieces, vocab_size=48, hard_vocab_limit=False, minloglevel=2
    )
    unit = PieceTokenizer(pieces.getvalue())
    # Mostly one direction, so that cosines and means are positive, as with a trained model.
    table = torch.randn(unit.size, dim, generator=torch.Generator().manual_seed(seed)) * 0.5 + 0.5
    save_model(folder, AverageNetwork({"pieces": table}), [unit])
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def encoder(model: Path) -> Encoder:
    return load_encoder(model)


def row(source: str, target: str, number: int = 1, reason: str | None = None) -> Row:
    return Row(f"p{number}", (source, target), "pairs.tsv", number, reason)


def one(text: str, number: int = 1, reason: str | None = None) -> Row:
    return Row(f"x{number}", (text,), "pool.txt", number, reason)


def vector_file(path: Path, encoder: Encoder, texts: list[str], **facts) -> Path:
    vectors, valid = encoder.encode(texts)
    facts = {"dim": encoder.dim, "model_hash": encoder.hash, **facts}
    write_vectors(path, [([f"v{i}" for i in range(len(texts))], vectors, valid)], **facts)
    return path
