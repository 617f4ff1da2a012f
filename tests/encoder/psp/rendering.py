"""What the code published with the released models does to one text, written out step by step."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
import sentencepiece
import torch

TABLE = "embedding.weight"


def find(vocabulary: Mapping[str, int], token: str, zero_unk: int) -> int | None:
    """The row of one token; None is left out."""
    if token in vocabulary:
        return vocabulary[token]
    return None if zero_unk else vocabulary["UUUNKKK"]


def at_scale_rows(
    text: str, sp: sentencepiece.SentencePieceProcessor | None, vocabulary: Mapping[str, int], args: Namespace
) -> list[int]:
    """Rows of the table for one text, form of 2019 to 2022 (without Moses)."""
    text = text.lower() if args.lower_case else text
    if sp is not None:
        text = " ".join(sp.EncodeAsPieces(text))
    text = text.strip()
    text = text.lower() if args.lower_case else text
    tokens = []
    if args.ngrams:
        padded = " " + text + " "
        for start in range(len(padded)):
            gram = padded[start : start + args.ngrams]
            if len(gram) == args.ngrams:
                tokens.append(gram)
    else:
        tokens = text.split()
    rows = []
    for token in tokens:
        row = find(vocabulary, token, args.zero_unk)
        if row is not None:
            rows.append(row)
    return rows if rows else [vocabulary["UUUNKKK"]]


def older_rows(text: str, sp: sentencepiece.SentencePieceProcessor, vocabulary: Mapping[str, int]) -> list[int]:
    """Rows for one text, form of ``sim.pt``: a row of 0 counts as not found."""
    from nltk.tokenize import TreebankWordTokenizer

    words = " ".join(TreebankWordTokenizer().tokenize(text.lower()))
    rows = []
    for token in " ".join(sp.EncodeAsPieces(words)).strip().lower().split():
        row = find(vocabulary, token.lower(), 1)
        if row:
            rows.append(row)
    if not rows:
        rows.append(vocabulary["UUUNKKK"])
    return rows


def exported_rows(text: str, sp: sentencepiece.SentencePieceProcessor) -> list[int]:
    """Rows for one text, folder of a model hub."""
    rows = [number for number in sp.EncodeAsIds(text) if number > 0]
    return rows if rows else [0]


def averaged(state: Mapping[str, torch.Tensor], rows: list[int], table: str = TABLE) -> np.ndarray:
    """The mean of the rows."""
    return state[table].double()[rows].mean(0).numpy()


def averaged_states(
    state: Mapping[str, torch.Tensor], rows: list[int], args: Namespace, table: str = TABLE
) -> np.ndarray:
    """The mean of the states of torch's own LSTM."""
    lstm = torch.nn.LSTM(args.dim, args.hidden_dim, num_layers=1, bidirectional=True, batch_first=True)
    lstm.load_state_dict({key.removeprefix("lstm."): value for key, value in state.items() if key.startswith("lstm.")})
    with torch.no_grad():
        states, _ = lstm.double()(state[table].double()[rows][None])
    return states[0].mean(0).numpy()


def unit_length(vector: np.ndarray) -> np.ndarray:
    """The vector divided by its length."""
    return vector / np.linalg.norm(vector)


def options(**given: Any) -> Namespace:
    """The command line of a training, with its defaults."""
    defaults = {
        "dim": 7,
        "model": "avg",
        "lower_case": 1,
        "tokenize": 0,
        "zero_unk": 1,
        "ngrams": 0,
        "share_vocab": 1,
        "share_encoder": 1,
        "pool": "mean",
        "hidden_dim": 5,
        "sp_model": "all.model",
        "gpu": 1,
        "lr": 0.001,
        "load_file": None,
    }
    return Namespace(**{**defaults, **given})
