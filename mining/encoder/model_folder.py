"""The model folder: ``model.safetensors``, the files of the units, and ``config.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from mining.encoder.networks import AverageNetwork, Network, build_network
from mining.encoder.stored import SCALES, TABLE_TYPES, StoredTable, check_type
from mining.encoder.tokenizers import Tokenizer, load_tokenizer
from mining.encoder.tokenizers.pieces import PIECES_FILE
from mining.errors import UsageError
from mining.io.atomic import replace_file
from mining.io.files import MOST_JSON, read_buffer, read_bytes
from mining.io.json_file import parse_json, write_json
from mining.io.tensors import read_tensors
from mining.schemas import SIDES
from mining.shown import listed, quoted, short

__all__ = [
    "BUNDLED_MODEL",
    "CONFIG_FILE",
    "FORMAT_VERSION",
    "PIECES_FILE",
    "TABLE_FILE",
    "bundled_model",
    "folder_hash",
    "model_hash",
    "read_config",
    "read_model",
    "save_model",
    "unit_files",
]

FORMAT_VERSION = 2
TABLE_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
BUNDLED_MODEL = Path(__file__).resolve().parent.parent / "bundled_model"
_ENCODING_KEYS = ("format_version", "kind", "network", "units", "dim", "dtype", "shared")


def bundled_model() -> Path:
    """The folder of the model that comes with the package and is used when none is named.

    Raises UsageError when this installation has none.
    """
    if not (BUNDLED_MODEL / CONFIG_FILE).is_file():
        raise UsageError(
            f"no model is named, and this installation comes without one ({BUNDLED_MODEL}): name a model folder"
        )
    return BUNDLED_MODEL


def unit_files(config: Mapping[str, Any]) -> list[str]:
    """Names of the units' files that a model's ``config.json`` speaks of."""
    return [name for described in config["units"] for name in described["files"]]


def model_hash(config: Mapping[str, Any], files: Mapping[str, memoryview | bytes]) -> str:
    """The name of a model: blake2b-128 over what decides its vectors: settings, tensors and the
    units' files.

    `files`: by name the bytes that the model is made from, so that the name is of what is in
    memory.
    """
    digest = hashlib.blake2b(digest_size=16)
    settings = {key: config.get(key) for key in _ENCODING_KEYS}
    if not config["shared"]:
        settings["languages"] = config["languages"]  # which half of the tables is whose
    text = json.dumps(settings, sort_keys=True).encode()
    digest.update(len(text).to_bytes(8, "little") + text)
    for name in (TABLE_FILE, *unit_files(config)):
        digest.update(len(files[name]).to_bytes(8, "little"))
        digest.update(files[name])
    return digest.hexdigest()


def folder_hash(folder: Path) -> str:
    """The name of the model that a folder holds now, whatever its description says.

    Raises UsageError when a file is missing.
    """
    config = _check_folder(folder)
    return model_hash(config, {name: data.data for name, data in _contents(folder, config).items()})


def _contents(folder: Path, config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The files that decide a model's vectors, by name, each read once."""
    return {name: read_buffer(folder / name) for name in (TABLE_FILE, *unit_files(config))}


def save_model(
    folder: Path,
    network: Network,
    units: Sequence[Tokenizer],
    *,
    languages: Sequence[str] | None = None,
    training: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    dtype: str = "float32",
) -> str:
    """Write a model folder, ``config.json`` last, and return the model's hash.

    `units` in the order of the network's tables; a table has as many rows as its unit, or twice as
    many when the two `languages` are kept apart. `dtype` is that of the tables on disk; other than
    float32, a projection is worked into the tables. `training` and `versions` are kept for the
    reader and are no part of the hash. Raises ValueError when units and tables do not fit.
    """
    check_type(dtype)
    if dtype != "float32" and isinstance(network, AverageNetwork):
        network = network.projected()
    shared = _check_units(network, units)
    if not shared and len(set(languages or [])) != 2:
        languages = SIDES
    files = [unit.files() for unit in units]
    contents = {name: data for one in files for name, data in one.items()}
    contents[TABLE_FILE] = save(_tensors(network, dtype))
    config: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": network.kind,
        "network": network.settings(),
        "units": [
            {"kind": unit.kind, "settings": unit.settings(), "files": sorted(one)}
            for unit, one in zip(units, files, strict=True)
        ],
        "dim": network.dim,
        "dtype": dtype,
        "shared": shared,
        "languages": list(languages or []),
        "training": dict(training or {}),
        "versions": dict(versions or {}),
    }
    config["hash"] = model_hash(config, contents)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        replace_file(folder / name, data)
    write_json(folder / CONFIG_FILE, config, sort_keys=False)
    return str(config["hash"])


def _tensors(network: Network, dtype: str) -> dict[str, torch.Tensor]:
    """What is saved of a network: its tables in `dtype`, its weights in float32."""
    tensors: dict[str, torch.Tensor] = {}
    for name, table in network.tables.items():
        tensors |= StoredTable(table.detach().to("cpu", torch.float32)).converted(dtype).tensors(name)
    tensors |= {name: weight.detach().to("cpu", torch.float32) for name, weight in network.weights.items()}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _check_units(network: Network, units: Sequence[Tokenizer]) -> bool:
    """Whether the languages share the tables; raises ValueError when tables and units do not
    fit."""
    kinds = [unit.kind for unit in units]
    if list(network.tables) != kinds:
        raise ValueError(f"tables {', '.join(network.tables)} with units {', '.join(kinds)}")
    shares = set()
    for unit, table in zip(units, network.tables.values(), strict=True):
        if len(table) not in (unit.size, 2 * unit.size):
            raise ValueError(f"table '{unit.kind}' has {len(table)} rows for {unit.size} {unit.kind}")
        shares.add(len(table) == unit.size)
    if len(shares) != 1:
        raise ValueError("some tables are of one language, others of two")
    return shares.pop()


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a model folder; raises UsageError when it is missing or no model
    description."""
    path = folder / CONFIG_FILE
    data = read_bytes(path, MOST_JSON)
    try:
        config = parse_json(data)
    except ValueError as error:
        raise UsageError(f"{path}: not a readable model description: {error}") from None
    if not isinstance(config, dict) or "format_version" not in config:
        raise UsageError(f"{path}: not a model description of this program: it lacks format_version")
    if config["format_version"] != FORMAT_VERSION:
        raise UsageError(
            f"{path}: format {quoted(config['format_version'])}, but this version reads format {FORMAT_VERSION}; train "
            "it again"
        )
    missing = [key for key in (*_ENCODING_KEYS, "languages", "hash") if key not in config]
    if missing:
        raise UsageError(f"{path}: not a model description of this program: it lacks {', '.join(missing)}")
    _check_config(path, config)
    return config


def _check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Raise UsageError that names the key whose value cannot be."""
    units = config["units"] if isinstance(config["units"], list) else []
    fitting = {
        "network": isinstance(config["network"], dict),
        "units": bool(units) and all(map(_describes_unit, units)),
        "dim": type(config["dim"]) is int and config["dim"] > 0,
        "dtype": config["dtype"] in TABLE_TYPES,
        "shared": isinstance(config["shared"], bool),
        "languages": _texts(config["languages"]) and (config["shared"] or len(set(config["languages"])) == 2),
        "hash": isinstance(config["hash"], str),
    }
    faulty = [key for key, fits in fitting.items() if not fits]
    if faulty:
        raise UsageError(f"{path}: '{faulty[0]}' is {quoted(config[faulty[0]])}, which cannot be; copy it again")
    names, kinds = unit_files(config), [unit["kind"] for unit in units]
    if len(set(names)) != len(names) or any(Path(name).name != name for name in names) or len(set(kinds)) != len(kinds):
        raise UsageError(f"{path}: names the units {listed(kinds)} and the files {listed(names)}, which cannot be")


def _describes_unit(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("kind"), str)
        and isinstance(entry.get("settings"), dict)
        and _texts(entry.get("files"))
    )


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def read_model(folder: Path) -> tuple[dict[str, Any], list[Tokenizer], dict[str, StoredTable], dict[str, torch.Tensor]]:
    """What a model folder holds: its ``config.json``, units, tables in their order, and weights.

    Each file is read once, and hashed as it was read: a folder that is replaced meanwhile gives a
    model that is whole or an error. Raises UsageError when the folder or a file is missing,
    truncated, or does not fit the others; the message names both files and both numbers.
    """
    config = _check_folder(folder)
    files = _contents(folder, config)
    tensors = _read_tensors(folder / TABLE_FILE, files[TABLE_FILE])
    units = [_read_unit(folder, described, files) for described in config["units"]]
    tables = {unit.kind: _table(folder, unit.kind, tensors) for unit in units}
    spare = {unit.kind + SCALES for unit in units} | set(tables)
    weights = {name: tensor for name, tensor in tensors.items() if name not in spare}
    _check_fit(folder, config, units, tables, weights)
    found = model_hash(config, {name: data.data for name, data in files.items()})
    if found != config["hash"]:
        raise UsageError(
            f"{folder}: the files do not belong together: they hash to {found} but {CONFIG_FILE} says "
            f"{config['hash']}; copy the whole folder again, or train again"
        )
    return config, units, tables, weights


def _check_folder(folder: Path) -> dict[str, Any]:
    """The folder's ``config.json``, after a look at whether all files are there."""
    if not folder.is_dir():
        hint = "a model is the folder that `bitext train` writes"
        raise UsageError(f"{folder}: {'not a folder' if folder.exists() else 'no such model folder'}; {hint}")
    whole = (folder / CONFIG_FILE).is_file()
    config = read_config(folder) if whole else {}
    names = (CONFIG_FILE, TABLE_FILE, *unit_files(config)) if whole else (CONFIG_FILE,)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        mend = "the training has not finished: run it again" if (folder / "checkpoint").is_dir() else "copy it again"
        raise UsageError(f"{folder}: not a whole model, it lacks {', '.join(missing)}; {mend}")
    return config


def _read_tensors(path: Path, data: np.ndarray) -> dict[str, torch.Tensor]:
    try:
        return read_tensors(data)[0]
    except ValueError as error:
        raise UsageError(f"{path}: truncated or not a safetensors file ({error}); copy it again") from None


def _table(folder: Path, name: str, tensors: Mapping[str, torch.Tensor]) -> StoredTable:
    path = folder / TABLE_FILE
    if name not in tensors:
        raise UsageError(f"{path}: holds {listed(tensors)}, not the table '{name}'")
    table = StoredTable(tensors[name], tensors.get(name + SCALES))
    if table.values.ndim != 2 or not table.values.numel() or table.dtype not in TABLE_TYPES:
        raise UsageError(f"{path}: '{name}' is {table.dtype} of shape {tuple(table.values.shape)}, not a table")
    if (table.dtype == "int8") != (table.scales is not None):
        raise UsageError(f"{path}: '{name}' is {table.dtype}, but '{name + SCALES}' says otherwise; copy it again")
    if table.scales is not None and (table.scales.shape != table.values.shape[:1] or not _is_float32(table.scales)):
        raise UsageError(f"{path}: '{name + SCALES}' has not a number for each row of '{name}'; copy it again")
    return table


def _is_float32(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float32


def _read_unit(folder: Path, described: Mapping[str, Any], files: Mapping[str, np.ndarray]) -> Tokenizer:
    own = {name: files[name].tobytes() for name in described["files"]}
    try:
        return load_tokenizer(described["kind"], own, described["settings"])
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; copy it again") from None


def _check_fit(
    folder: Path,
    config: Mapping[str, Any],
    units: Sequence[Tokenizer],
    tables: Mapping[str, StoredTable],
    weights: Mapping[str, torch.Tensor],
) -> None:
    path, mend = folder / TABLE_FILE, "the files are of different models"
    for described, unit, table in zip(config["units"], units, tables.values(), strict=True):
        wanted = unit.size if config["shared"] else 2 * unit.size
        if len(table.values) != wanted:
            names = ", ".join(str(folder / name) for name in described["files"])
            raise UsageError(f"{path}: {len(table.values)} rows of {unit.kind}, but {names} ask for {wanted}; {mend}")
    for name, weight in weights.items():
        if not _is_float32(weight):
            raise UsageError(f"{path}: '{short(name)}' is {weight.dtype}, not float32; {mend}")
    # One row is enough to see whether network and tensors fit.
    first = {name: table.take(slice(1)) for name, table in tables.items()}
    try:
        network = build_network(config["network"], {**first, **weights})
    except ValueError as error:
        raise UsageError(f"{path}: does not fit {folder / CONFIG_FILE}: {error}; {mend}") from None
    if list(network.tables) != list(tables):
        raise UsageError(f"{path}: holds {listed(weights)} besides the tables {', '.join(tables)}; {mend}")
    if network.dim != config["dim"]:
        raise UsageError(
            f"{path}: vectors of dimension {network.dim}, but {folder / CONFIG_FILE} says dim {config['dim']}; {mend}"
        )
