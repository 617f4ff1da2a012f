"""The model folder: ``model.safetensors``, ``sentencepiece.model`` and ``config.json``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from mining.devices import resolve_device
from mining.encoder.base import Encoder
from mining.encoder.pieces import PieceTokenizer
from mining.encoder.sp import SpEncoder
from mining.errors import UsageError

FORMAT_VERSION = 1
KIND = "sp"
TABLE_FILE = "model.safetensors"
PIECES_FILE = "sentencepiece.model"
CONFIG_FILE = "config.json"
TABLE_KEY = "piece_vectors"
_ENCODING_KEYS = ("format_version", "kind", "dim", "vocabulary", "lowercase")


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` under a temporary name beside `path`, then rename it: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def model_hash(config: Mapping[str, Any], table: bytes, pieces: bytes) -> str:
    """The name of a model: blake2b-128 over what decides its vectors (settings, piece table, sentencepiece model)."""
    digest = hashlib.blake2b(digest_size=16)
    settings = {key: config.get(key) for key in _ENCODING_KEYS}
    for part in (json.dumps(settings, sort_keys=True).encode(), table, pieces):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def save_model(
    folder: Path,
    table: torch.Tensor,
    pieces: bytes,
    *,
    lowercase: bool,
    languages: list[str] | None = None,
    training: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> str:
    """Write a model folder, ``config.json`` last, and return the model's hash.

    `table` is (vocabulary, dim) float32, one row per id of the sentencepiece model `pieces`. `training` and `versions`
    are kept for the reader and are no part of the hash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = save({TABLE_KEY: table.detach().to("cpu", torch.float32).contiguous()})
    config: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "dim": table.shape[1],
        "vocabulary": table.shape[0],
        "lowercase": lowercase,
        "languages": languages or [],
        "training": dict(training or {}),
        "versions": dict(versions or {}),
    }
    config["hash"] = model_hash(config, data, pieces)
    replace_file(folder / PIECES_FILE, pieces)
    replace_file(folder / TABLE_FILE, data)
    replace_file(folder / CONFIG_FILE, (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())
    return str(config["hash"])


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a model folder; raises UsageError when it is missing or no model description."""
    path = folder / CONFIG_FILE
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a readable model description: {error}") from None
    missing = [key for key in (*_ENCODING_KEYS, "hash") if not isinstance(config, dict) or key not in config]
    if missing:
        raise UsageError(f"{path}: not a model description of this program: it lacks {', '.join(missing)}")
    if config["format_version"] != FORMAT_VERSION or config["kind"] != KIND:
        found = f"format {config['format_version']} of kind {config['kind']}"
        raise UsageError(f"{path}: {found}, but this version reads format {FORMAT_VERSION} of kind {KIND}")
    return config


def load_encoder(path: str | Path, device: str = "cpu") -> Encoder:
    """Load a model folder onto `device` ("cpu", "cuda", "cuda:1").

    Raises UsageError when the folder or a file is missing, truncated, or does not fit the others; the message names
    both files and both numbers.
    """
    folder = Path(path)
    _check_folder(folder)
    config = read_config(folder)
    table_bytes, pieces_bytes = (folder / TABLE_FILE).read_bytes(), (folder / PIECES_FILE).read_bytes()
    table = _read_table(folder / TABLE_FILE)
    tokenizer = _read_tokenizer(folder / PIECES_FILE, pieces_bytes)
    _check_fit(folder, config, table, tokenizer)
    found = model_hash(config, table_bytes, pieces_bytes)
    if found != config["hash"]:
        raise UsageError(
            f"{folder}: the files do not belong together: they hash to {found} but {CONFIG_FILE} says "
            f"{config['hash']}; copy the whole folder again, or train again"
        )
    return SpEncoder(table.to(resolve_device(device)), tokenizer, found, config)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        hint = "a model is the folder that `bitext train` writes"
        raise UsageError(f"{folder}: {'not a folder' if folder.exists() else 'no such model folder'}; {hint}")
    missing = [name for name in (CONFIG_FILE, TABLE_FILE, PIECES_FILE) if not (folder / name).is_file()]
    if missing:
        mend = "the training has not finished: run it again" if (folder / "checkpoint").is_dir() else "copy it again"
        raise UsageError(f"{folder}: not a whole model, it lacks {', '.join(missing)}; {mend}")


def _read_table(path: Path) -> torch.Tensor:
    try:
        with safe_open(path, framework="pt") as file:
            keys = list(file.keys())
            if TABLE_KEY not in keys:
                raise UsageError(f"{path}: holds {', '.join(keys) or 'nothing'}, not the table '{TABLE_KEY}'")
            table = file.get_tensor(TABLE_KEY)
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path}: truncated or not a safetensors file ({error}); copy it again") from None
    if table.ndim != 2 or table.dtype != torch.float32:
        raise UsageError(f"{path}: '{TABLE_KEY}' is {table.dtype} of shape {tuple(table.shape)}, not a float32 matrix")
    return table


def _read_tokenizer(path: Path, data: bytes) -> PieceTokenizer:
    try:
        return PieceTokenizer(data)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"{path}: truncated or not a sentencepiece model ({error}); copy it again") from None


def _check_fit(folder: Path, config: Mapping[str, Any], table: torch.Tensor, tokenizer: PieceTokenizer) -> None:
    rows, dim = table.shape
    table_path, config_path = folder / TABLE_FILE, folder / CONFIG_FILE
    mend = "the files are of different models"
    if rows != tokenizer.size:
        raise UsageError(f"{table_path} has {rows} rows but {folder / PIECES_FILE} has {tokenizer.size} pieces; {mend}")
    if rows != config["vocabulary"]:
        raise UsageError(
            f"{table_path} has {rows} rows but {config_path} says vocabulary {config['vocabulary']}; {mend}"
        )
    if dim != config["dim"]:
        raise UsageError(f"{table_path} has dimension {dim} but {config_path} says dim {config['dim']}; {mend}")
