"""The network that a training starts from: drawn at random, or filled with word vectors such as
GloVe or fastText in their text form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from mining.config.train import TrainConfig
from mining.corpus.lines import numbered_lines
from mining.encoder.networks import Network, build_network, fresh_network
from mining.encoder.tokenizers import Tokenizer
from mining.errors import InputError, UsageError
from mining.training.data import PreparedPairs

_LONGEST_LINE = 100_000
_BLOCK_WORDS = 8192


def start_network(config: TrainConfig, pairs: PreparedPairs) -> Network:
    """The untrained network of a configuration, on its device."""
    sizes = [tokenizer.size * (1 if config.shared else 2) for tokenizer in pairs.tokenizers]
    network = fresh_network(config.network(list(pairs.kinds)), sizes, config.init, config.seed)
    if config.initial_vectors is not None:
        read_initial(config.initial_vectors, pairs.tokenizers[0], next(iter(network.tables.values())))
    for tensors in (network.tables, network.weights):
        for name, tensor in tensors.items():
            tensors[name] = tensor.to(config.device)
    return network


def half(network: Network, tokenizers: Sequence[Tokenizer], number: int) -> Network:
    """The network of the first (0) or second (1) of two languages that are kept apart, on the same
    memory."""
    tables = {
        name: table[number * tokenizer.size : (number + 1) * tokenizer.size]
        for tokenizer, (name, table) in zip(tokenizers, network.tables.items(), strict=True)
    }
    return build_network(network.stored_settings(), tables, network.weights)


def read_initial(path: str, tokenizer: Tokenizer, table: torch.Tensor) -> int:
    """Put the vectors of the file at `path` into the rows of `table` (size, dim); returns how many
    rows were set.

    A line is a word, a space and its numbers; the first line may be a header of two numbers
    (word2vec's form). A word that is one token of `tokenizer` sets its row, the first of several
    with the same row counts; others are passed over. For a table with two rows a token (languages
    apart) both are set. Raises UsageError when there is no such file or no word fits, InputError
    for a line of another length. Wieting et al. 2016, initialisation of PARAGRAM-PHRASE.
    """
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file of word vectors")
    found: dict[int, np.ndarray] = {}
    for words, vectors in _blocks(path, table.shape[1]):
        tokens = tokenizer(words)
        for index in np.flatnonzero(tokens.lengths == 1):
            row = int(tokens.ids[tokens.offsets[index]])
            if row != tokenizer.unknown:
                found.setdefault(row, vectors[index])
    if not found:
        raise UsageError(f"{path}: none of its words is a token of the vocabulary ({tokenizer.kind})")
    rows = torch.tensor(sorted(found))
    values = torch.from_numpy(np.stack([found[int(row)] for row in rows]))
    for start in range(0, len(table), tokenizer.size):
        table[rows + start] = values
    return len(found)


def _blocks(path: str, dim: int) -> Iterator[tuple[list[str], list[np.ndarray]]]:
    """The words of the file and their vectors, (dim,) float32, block by block."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    for number, line in numbered_lines(path, "strict", _LONGEST_LINE):
        fields = str(line).rstrip().split(" ")
        if number == 1 and len(fields) == 2:
            continue
        words.append(fields[0])
        vectors.append(_numbers(fields[1:], path, number, dim))
        if len(words) == _BLOCK_WORDS:
            yield words, vectors
            words, vectors = [], []
    if words:
        yield words, vectors


def _numbers(fields: list[str], path: str, number: int, dim: int) -> np.ndarray:
    try:
        vector = np.array(fields, np.float32)
    except ValueError:
        vector = np.empty(0, np.float32)
    if len(vector) != dim or not np.isfinite(vector).all():
        raise InputError(
            f"{path}, line {number}: not a word and {dim} numbers: vectors of another length need another --dim"
        )
    return vector
