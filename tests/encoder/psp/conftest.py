"""Released models of all three forms, made on the spot with random numbers."""

from __future__ import annotations

import collections
import io
import json
import random
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from tests.encoder.conftest import made_up_sentences
from tests.encoder.psp.rendering import options

UNSEEN = ["漢", "字", "語", "💡"]
"""Characters that the sentencepiece model does not know."""


def train_pieces(sentences: list[str], size: int = 60) -> bytes:
    """A sentencepiece model with the published settings: unigram, nmt_nfkc."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def pieces_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pieces") / "all.model"
    punctuated = [f"{text} , don't . a b c" for text in made_up_sentences(300)]
    path.write_bytes(train_pieces(punctuated))
    return path


@pytest.fixture(scope="session")
def sp(pieces_file: Path) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    processor.Load(str(pieces_file))
    return processor


@pytest.fixture(scope="session")
def vocabulary(sp: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """Piece strings of a corpus in which characters occur that sentencepiece does not know; some
    pieces are missing."""
    corpus = [f"{text} don't a, b c." for text in made_up_sentences(80, seed=4)] + ["ba 漢字 ke", "語 lo"]
    names = sorted({piece for text in corpus for piece in sp.EncodeAsPieces(text)} - {"▁c"})
    random.Random(2).shuffle(names)
    return {name: row for row, name in enumerate([*names, "UUUNKKK"])}


def random_matrix(rows: int, columns: int, seed: int = 3) -> torch.Tensor:
    return torch.randn((rows, columns), generator=torch.Generator().manual_seed(seed))


def lstm_state(args: Namespace, prefix: str = "lstm.") -> dict[str, torch.Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(8)
        lstm = torch.nn.LSTM(args.dim, args.hidden_dim, num_layers=1, bidirectional=True, batch_first=True)
    return {prefix + key: value for key, value in lstm.state_dict().items()}


def checkpoint(vocabulary: Mapping[str, int], second: Mapping[str, int] | None = None, **given: Any) -> dict[str, Any]:
    """What the code of 2019 to 2022 saves, with Adam's state as it comes."""
    args = options(**given)
    state = {"embedding.weight": random_matrix(len(vocabulary), args.dim)}
    if second is not None:
        state["embedding_fr.weight"] = random_matrix(len(second), args.dim, seed=5)
    if args.model == "lstm":
        state |= lstm_state(args)
    weight = torch.nn.Parameter(state["embedding.weight"].clone())
    adam = torch.optim.Adam([weight])
    weight.sum().backward()
    adam.step()
    return {
        "state_dict": collections.OrderedDict(state),
        "vocab": dict(vocabulary),
        "vocab_fr": dict(second) if second is not None else None,
        "args": args,
        "optimizer": adam.state_dict(),
        "epoch": 3,
    }


def older_checkpoint(vocabulary: Mapping[str, int]) -> dict[str, Any]:
    """``sim.pt``."""
    table = random_matrix(len(vocabulary), 7)
    args = Namespace(dim=7, gpu=-1)
    return {"state_dict": {"embedding.weight": table}, "vocab_words": dict(vocabulary), "args": args}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Saves a checkpoint as torch 1.4 (old form) or later (zip) does."""

    def saved(data: Any, name: str = "model.pt", *, old: bool = False) -> Path:
        path = tmp_path / name
        torch.save(data, path, _use_new_zipfile_serialization=not old)
        return path

    return saved


@pytest.fixture
def hub_folder(tmp_path: Path, pieces_file: Path, sp: sentencepiece.SentencePieceProcessor) -> Callable[..., Path]:
    """Writes the folder of a model hub."""

    def hub_folder(config: dict[str, Any] | None = None, weights: str = "pytorch_model.bin", extra: int = 0) -> Path:
        folder = tmp_path / "hub"
        folder.mkdir()
        table = random_matrix(sp.get_piece_size() + extra, 6)
        if weights.endswith(".bin"):
            torch.save({"word_embeddings.weight": table}, folder / weights)
        else:
            from safetensors.torch import save_file

            save_file({"word_embeddings.weight": table}, folder / weights)
        (folder / "spiece.model").write_bytes(pieces_file.read_bytes())
        (folder / "config.json").write_text(json.dumps({"vocab_size": len(table), **(config or {})}), encoding="utf-8")
        return folder

    return hub_folder
