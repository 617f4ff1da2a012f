"""P-SP: the models published with Wieting et al. 2019 to 2022, read without running anything they
hold.

They come in three forms: checkpoints of 2019 and 2021 (at-scale), the older ``sim.pt``, and folders
for a model hub (exported).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from mining.encoder.networks import Network
from mining.encoder.networks.average import AverageNetwork
from mining.encoder.networks.lstm import WEIGHTS, LstmNetwork
from mining.encoder.psp.checkpoint import (
    Arguments,
    Entries,
    entries,
    entry,
    load_checkpoint,
    matrix,
    parameter,
    plain,
    vocabulary,
)
from mining.encoder.tokenizers.psp import (
    PIECES_FILE,
    SECOND_VOCABULARY_FILE,
    VOCABULARY_FILE,
    PspTokenizer,
    vocabulary_bytes,
)
from mining.errors import UsageError
from mining.io.files import MOST_JSON, read_buffer, read_bytes
from mining.io.json_file import parse_json
from mining.io.tensors import read_tensors
from mining.shown import listed, quoted

AT_SCALE, OLDER, EXPORTED = "at-scale", "older", "exported"
TABLE, SECOND_TABLE, EXPORTED_TABLE = "embedding.weight", "embedding_fr.weight", "word_embeddings.weight"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
EXPORTED_PIECES, EXPORTED_CONFIG = "spiece.model", "config.json"


@dataclass(frozen=True)
class PspModel:
    """A P-SP model."""

    form: str
    """at-scale, older or exported"""
    network: Network
    tokenizer: PspTokenizer
    shared: bool
    """False: the table has a half for each of the two languages"""
    arguments: dict[str, object]
    """what the checkpoint says of its training"""


def is_psp(path: Path) -> bool:
    """Whether `path` looks like a P-SP model: a file of torch, or a folder with sentencepiece
    and weights."""
    if path.is_dir():
        return (path / EXPORTED_PIECES).is_file() and any((path / name).is_file() for name in WEIGHT_FILES)
    return path.suffix in {".pt", ".bin", ".pth"}


def read_psp(path: Path, pieces: Path | None = None, lowercase: bool | None = None) -> PspModel:
    """Read a P-SP model; its form is told by its keys.

    `pieces`: its sentencepiece model, needed for a checkpoint file (a folder brings its own).
    `lowercase` overrides what the model says of itself. Raises UsageError that names file and key
    when something is missing or contradictory.
    """
    if path.is_dir():
        return _exported(path, *_folder_weights(path), _folder_pieces(path, pieces), lowercase)
    data = load_checkpoint(path)
    if EXPORTED_TABLE in data:
        return _exported(path.parent, path, data, _folder_pieces(path.parent, pieces), lowercase)
    if "state_dict" not in data or not {"vocab", "vocab_words"} & set(data):
        raise UsageError(
            f"{path}: not a P-SP model: it has the keys {listed(data)}, where state_dict with vocab or "
            f"vocab_words, or {EXPORTED_TABLE}, belong"
        )
    if "vocab" in data and "vocab_words" in data:
        raise UsageError(f"{path}: has both 'vocab' and 'vocab_words', so which one its rows follow is unknown")
    state = entry(data, "state_dict", path)
    if not isinstance(state, dict):
        raise UsageError(f"{path}: 'state_dict' is a {type(state).__name__}, not a dict")
    state = entries(state)
    read = _older if "vocab_words" in data else _at_scale
    return read(path, data, state, _read_pieces(pieces), lowercase)


def _at_scale(
    path: Path,
    data: Entries,
    state: Entries,
    pieces: bytes | None,
    lowercase: bool | None,
) -> PspModel:
    """The checkpoints of 2019 and 2021: averaging or LSTM, one vocabulary or two."""
    arguments = Arguments(data, path)
    table = _table(state, TABLE, arguments, path)
    shared = arguments.switch("share_vocab", 1)
    files = {VOCABULARY_FILE: vocabulary_bytes(vocabulary(data, "vocab", len(table), path))}
    if not shared:
        second = _table(state, SECOND_TABLE, arguments, path)
        files[SECOND_VOCABULARY_FILE] = vocabulary_bytes(vocabulary(data, "vocab_fr", len(second), path))
        table = _halves(table, second)
    elif data.get("vocab_fr") is not None or SECOND_TABLE in state:
        raise UsageError(f"{path}: 'args.share_vocab' is 1, but 'vocab_fr' or '{SECOND_TABLE}' is there")
    width = arguments.number("ngrams", 0)
    settings = {
        "lookup": "ngrams" if width else "pieces",
        "width": width,
        "lowercase": arguments.switch("lower_case") if lowercase is None else lowercase,
        "tokenizer": "moses" if arguments.switch("tokenize", 0) else "none",
        "drop_unknown": arguments.switch("zero_unk"),
    }
    tokenizer = _tokenizer(path, _with_pieces(files, pieces, arguments, path), settings)
    return PspModel(AT_SCALE, _network(path, state, arguments, table), tokenizer, shared, arguments.plain())


def _older(
    path: Path,
    data: Entries,
    state: Entries,
    pieces: bytes | None,
    lowercase: bool | None,
) -> PspModel:
    """``sim.pt``: Treebank words of the lowered text, then pieces; row 0 is never found."""
    arguments = Arguments(data, path)
    table = _table(state, TABLE, arguments, path)
    _no_other(state, {TABLE}, path)
    files = {VOCABULARY_FILE: vocabulary_bytes(vocabulary(data, "vocab_words", len(table), path))}
    settings = {
        "lookup": "pieces",
        "lowercase": True if lowercase is None else lowercase,
        "tokenizer": "treebank",
        "drop_unknown": True,
        "drop_first_row": True,
    }
    tokenizer = _tokenizer(path, _with_pieces(files, pieces, arguments, path), settings)
    return PspModel(OLDER, AverageNetwork({tokenizer.kind: table}), tokenizer, True, arguments.plain())


def _exported(folder: Path, weights: Path, state: Entries, pieces: Path, lowercase: bool | None) -> PspModel:
    """The folder of a model hub: sentencepiece ids are the rows."""
    table = matrix(state, EXPORTED_TABLE, weights)
    _no_other(state, {EXPORTED_TABLE}, weights)
    config = _read_config(folder / EXPORTED_CONFIG)
    for key, found in (("vocab_size", table.shape[0]), ("hidden_size", table.shape[1]), ("dim", table.shape[1])):
        if config.get(key, found) != found:
            raise UsageError(f"{folder / EXPORTED_CONFIG}: '{key}' is {quoted(config[key])}, but the table has {found}")
    if lowercase is None:
        found_case = config.get("lower_case", config.get("do_lower_case", False))
        if found_case not in (True, False):
            raise UsageError(
                f"{folder / EXPORTED_CONFIG}: 'lower_case' is {quoted(found_case)}, neither true nor false"
            )
        lowercase = bool(found_case)
    data = _read_pieces(pieces) or b""
    tokenizer = _tokenizer(pieces, {PIECES_FILE: data}, {"lookup": "ids", "lowercase": lowercase})
    if tokenizer.size > len(table):
        raise UsageError(
            f"{weights}: '{EXPORTED_TABLE}' has {len(table)} rows, but {pieces} has {tokenizer.size} pieces"
        )
    # Rows beyond the last piece are never asked for.
    return PspModel(
        EXPORTED, AverageNetwork({tokenizer.kind: table[: tokenizer.size].clone()}), tokenizer, True, plain(config)
    )


def _table(state: Entries, key: str, arguments: Arguments, path: Path) -> torch.Tensor:
    table = matrix(state, key, path)
    dim = arguments.number("dim")
    if table.shape[1] != dim:
        raise UsageError(f"{path}: 'args.dim' is {dim}, but '{key}' has {table.shape[1]} columns")
    return table


def _halves(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """One table with a half of equal size for each language; what is too much is zero and never
    looked up."""
    size = max(len(first), len(second))
    table = first.new_zeros((2 * size, first.shape[1]))
    table[: len(first)] = first
    table[size : size + len(second)] = second
    return table


def _network(path: Path, state: Entries, arguments: Arguments, table: torch.Tensor) -> Network:
    recurrent = {str(key).removeprefix("lstm."): key for key in state if str(key).startswith("lstm")}
    model = arguments.word("model", "lstm" if recurrent else "avg")
    if arguments.word("pool", "mean") != "mean":
        raise UsageError(f"{path}: 'args.pool' is {arguments.word('pool', 'mean')}: only means are supported here")
    if model == "avg":
        _no_other(state, {TABLE, SECOND_TABLE}, path)
        return AverageNetwork({PspTokenizer.kind: table})
    if model != "lstm":
        raise UsageError(f"{path}: 'args.model' is {model!r}: neither avg nor lstm")
    if not arguments.switch("share_encoder", 1) or any(str(key).startswith("lstm_fr.") for key in state):
        raise UsageError(f"{path}: has an LSTM for each language ('lstm_fr.*'), which is not supported here")
    _no_other(state, {TABLE, SECOND_TABLE, *(f"lstm.{name}" for name in WEIGHTS)}, path)
    weights = {name: parameter(state, f"lstm.{name}", path) for name in WEIGHTS}
    try:
        return LstmNetwork(PspTokenizer.kind, table, weights)
    except ValueError as error:
        raise UsageError(f"{path}: 'lstm.*': {error}") from None


def _no_other(state: Entries, known: set[str], path: Path) -> None:
    """Parameters that would be left out silently are an error."""
    others = [key for key in state if key not in known]
    if others:
        raise UsageError(f"{path}: has parameters that a model of this form has not: {listed(dict.fromkeys(others))}")


def _tokenizer(path: Path, files: Mapping[str, bytes], settings: Mapping[str, object]) -> PspTokenizer:
    try:
        return PspTokenizer(files, settings)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _with_pieces(files: dict[str, bytes], pieces: bytes | None, arguments: Arguments, path: Path) -> dict[str, bytes]:
    """The files with the sentencepiece model; a model trained without one (words) needs none."""
    if pieces is not None:
        return {PIECES_FILE: pieces, **files}
    if arguments.values.get("sp_model", "missing"):
        raise UsageError(f"{path}: name the sentencepiece model that came with it with --sentencepiece")
    return files


def _read_pieces(path: Path | None) -> bytes | None:
    return None if path is None else read_bytes(path)


def _folder_pieces(folder: Path, pieces: Path | None) -> Path:
    found = pieces or folder / EXPORTED_PIECES
    if not found.is_file():
        raise UsageError(f"{found}: no such file; name the sentencepiece model with --sentencepiece")
    return found


def _folder_weights(folder: Path) -> tuple[Path, Entries]:
    for name in WEIGHT_FILES:
        path = folder / name
        if path.is_file():
            return path, _safetensors(path) if path.suffix == ".safetensors" else load_checkpoint(path)
    raise UsageError(f"{folder}: not a P-SP model: it lacks {' or '.join(WEIGHT_FILES)}")


def _safetensors(path: Path) -> Entries:
    try:
        return read_tensors(read_buffer(path))[0]
    except ValueError as error:
        raise UsageError(f"{path}: truncated or not a safetensors file ({error}); copy it again") from None


def _read_config(path: Path) -> dict[str, object]:
    try:
        config = parse_json(read_bytes(path, MOST_JSON))
    except ValueError as error:
        raise UsageError(f"{path}: not a readable model description: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path}: holds a {type(config).__name__}, not the dict of a model description")
    return config
