"""The model folder: ``model.safetensors``, the files of the tokenizers, and ``config.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save

from mining.config.encode import TableType
from mining.encoder.model import SCALES, TABLE_TYPES, Model, StoredTable, check_type
from mining.encoder.networks import Network
from mining.encoder.tokenizers import Tokenizer, load_tokenizer
from mining.errors import UsageError
from mining.io.atomic import replace_file
from mining.io.files import MOST_JSON, read_buffer, read_bytes
from mining.io.json_file import parse_json, write_json
from mining.io.tensors import read_tensors
from mining.schemas import SIDES
from mining.shown import listed, quoted, short

FORMAT_VERSION = 2
TABLE_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
BUNDLED_MODEL = Path(__file__).resolve().parent.parent / "bundled_model"
_ENCODING_KEYS = ("format_version", "kind", "network", "units", "dim", "dtype", "shared")
_NEEDED_KEYS = (*_ENCODING_KEYS, "languages", "hash")
Contents = Mapping[str, np.ndarray]
"""By name, the bytes of the files that decide the vectors of a model, (size,) uint8."""


class TokenizerDescription(BaseModel):
    """A tokenizer in ``config.json``."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    kind: str
    settings: dict[str, object]
    files: list[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> TokenizerDescription:
        """What `load_tokenizer` needs to make it again."""
        return cls(kind=tokenizer.kind, settings=dict(tokenizer.settings()), files=sorted(tokenizer.files()))


class ModelDescription(BaseModel):
    """``config.json``, checked once; its keys keep the names that folders have."""

    model_config = ConfigDict(strict=True, frozen=True, populate_by_name=True)

    format_version: int = FORMAT_VERSION
    kind: str
    network: dict[str, object]
    """what ``Network.stored_settings`` gave"""
    tokenizers: Annotated[list[TokenizerDescription], Field(min_length=1, alias="units")]
    dim: Annotated[int, Field(gt=0)]
    dtype: TableType
    shared: bool
    """False: each of two languages has its half of the tables"""
    languages: list[str]
    training: dict[str, Any] = Field(default_factory=dict)
    """what the model was made from, for the reader"""
    versions: dict[str, object] = Field(default_factory=dict)
    """of the libraries that it was made with, for the reader"""
    hash: str = ""

    def files(self) -> list[str]:
        """Names of the files of the tokenizers."""
        return [name for one in self.tokenizers for name in one.files]

    def model_hash(self, contents: Mapping[str, bytes | memoryview]) -> str:
        """The name of a model: blake2b-128 over what decides its vectors: settings, tensors and the
        files of the tokenizers.

        `contents`: by name the bytes that the model is made from, so that the name is of what is in
        memory.
        """
        # With the languages apart their names say which half of the tables is whose.
        keys = {*_ENCODING_KEYS} if self.shared else {*_ENCODING_KEYS, "languages"}
        settings = {key: value for key, value in self.model_dump(by_alias=True).items() if key in keys}
        digest = hashlib.blake2b(digest_size=16)
        text = json.dumps(settings, sort_keys=True).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
        for name in (TABLE_FILE, *self.files()):
            digest.update(len(contents[name]).to_bytes(8, "little"))
            digest.update(contents[name])
        return digest.hexdigest()


def bundled_model() -> Path:
    """The folder of the model that comes with the package and is used when none is named.

    Raises UsageError when this installation has none.
    """
    if not (BUNDLED_MODEL / CONFIG_FILE).is_file():
        raise UsageError(
            f"no model is named, and this installation comes without one ({BUNDLED_MODEL}): name a model folder"
        )
    return BUNDLED_MODEL


def folder_hash(folder: Path) -> str:
    """The name of the model that a folder holds now, whatever its description says.

    Raises UsageError when a file is missing.
    """
    description = _check_folder(folder)
    return description.model_hash(_bytes(_contents(folder, description)))


def _contents(folder: Path, description: ModelDescription) -> Contents:
    return {name: read_buffer(folder / name) for name in (TABLE_FILE, *description.files())}


def _bytes(contents: Contents) -> dict[str, memoryview]:
    return {name: data.data for name, data in contents.items()}


def save_model(
    folder: Path,
    network: Network,
    tokenizers: Sequence[Tokenizer],
    *,
    languages: Sequence[str] | None = None,
    training: Mapping[str, object] | None = None,
    versions: Mapping[str, object] | None = None,
    dtype: str = "float32",
) -> str:
    """Write a model folder, ``config.json`` last, and return the hash of the model.

    `tokenizers` in the order of the tables of the network; a table has as many rows as its
    tokenizer, or twice as many when the two `languages` are kept apart. `dtype` is that of the
    tables on disk; other than float32, a projection is worked into the tables. `training` and
    `versions` are kept for the reader and are no part of the hash. Raises ValueError when
    tokenizers and tables do not fit.
    """
    model = Model.of(network, tokenizers)
    return write_model(folder, model, languages=languages, training=training, versions=versions, dtype=dtype)


def write_model(
    folder: Path,
    model: Model,
    *,
    languages: Sequence[str] | None,
    training: Mapping[str, object] | None,
    versions: Mapping[str, object] | None,
    dtype: str,
) -> str:
    """Write a model with tables in float32; see `save_model`."""
    check_type(dtype)
    if dtype != "float32":
        model = model.flat()
    shared = _check_tokenizers(model)
    if not shared and len(set(languages or [])) != 2:
        languages = SIDES  # where they were not given any names
    contents = {name: data for one in model.tokenizers for name, data in one.files().items()}
    contents[TABLE_FILE] = save(_tensors(model, dtype))
    description = ModelDescription.model_validate(
        {
            "kind": model.outline.kind,
            "network": dict(model.stored),
            "tokenizers": [TokenizerDescription.of(one) for one in model.tokenizers],
            "dim": model.outline.dim,
            "dtype": dtype,
            "shared": shared,
            "languages": [name.encode("utf-8", "replace").decode() for name in languages or []],
            "training": dict(training or {}),
            "versions": dict(versions or {}),
        }
    )
    name = description.model_hash(contents)
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in contents.items():
        replace_file(folder / file, data)
    write_json(folder / CONFIG_FILE, {**description.model_dump(by_alias=True), "hash": name}, sort_keys=False)
    return name


def _tensors(model: Model, dtype: str) -> dict[str, torch.Tensor]:
    """What is saved of a model: its tables in `dtype`, its weights in float32."""
    tensors: dict[str, torch.Tensor] = {}
    for name, table in model.tables.items():
        tensors |= StoredTable(table.values.detach().to("cpu", torch.float32)).converted(dtype).tensors(name)
    tensors |= {name: weight.detach().to("cpu", torch.float32) for name, weight in model.weights.items()}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _check_tokenizers(model: Model) -> bool:
    """Whether the languages share the tables; raises ValueError when tables and tokenizers do not
    fit."""
    kinds = [one.kind for one in model.tokenizers]
    if list(model.tables) != kinds:
        raise ValueError(f"tables {', '.join(model.tables)} with tokens {', '.join(kinds)}")
    shares = set()
    for one, table in zip(model.tokenizers, model.tables.values(), strict=True):
        rows = len(table.values)
        if rows not in (one.size, 2 * one.size):
            raise ValueError(f"table '{one.kind}' has {rows} rows for {one.size} {one.kind}")
        shares.add(rows == one.size)
    if len(shares) != 1:
        raise ValueError("some tables are of one language, others of two")
    return shares.pop()


def read_description(folder: Path) -> ModelDescription:
    """The ``config.json`` of a model folder; raises UsageError when it is missing or no model
    description."""
    path = folder / CONFIG_FILE
    try:
        config = parse_json(read_bytes(path, MOST_JSON))
    except ValueError as error:
        raise UsageError(f"{path}: not a readable model description: {error}") from None
    if not isinstance(config, dict) or "format_version" not in config:
        raise UsageError(f"{path}: not a model description of this program: it lacks format_version")
    if config["format_version"] != FORMAT_VERSION:
        raise UsageError(
            f"{path}: format {quoted(config['format_version'])}, but this version reads format {FORMAT_VERSION}; train "
            "it again"
        )
    missing = [key for key in _NEEDED_KEYS if key not in config]
    if missing:
        raise UsageError(f"{path}: not a model description of this program: it lacks {', '.join(missing)}")
    try:
        description = ModelDescription.model_validate(config)
    except ValidationError as error:
        raise _faulty(path, config, str(error.errors()[0]["loc"][0])) from None
    _check_description(path, config, description)
    return description


def _faulty(path: Path, config: Mapping[str, object], key: str) -> UsageError:
    return UsageError(f"{path}: '{key}' is {quoted(config[key])}, which cannot be; copy it again")


def _check_description(path: Path, config: Mapping[str, object], description: ModelDescription) -> None:
    """Raise UsageError for values that do not go together."""
    if not description.shared and len(set(description.languages)) != 2:
        raise _faulty(path, config, "languages")
    names, kinds = description.files(), [one.kind for one in description.tokenizers]
    if len(set(names)) != len(names) or any(Path(name).name != name for name in names) or len(set(kinds)) != len(kinds):
        raise UsageError(f"{path}: names the tokens {listed(kinds)} and the files {listed(names)}, which cannot be")


def read_model(folder: Path) -> tuple[ModelDescription, Model]:
    """What a model folder holds: its ``config.json``, and tokenizers, tables and weights.

    Each file is read once, and hashed as it was read: a folder that is replaced meanwhile gives a
    model that is whole or an error. Raises UsageError when the folder or a file is missing,
    truncated, or does not fit the others; the message names both files and both numbers.
    """
    description = _check_folder(folder)
    contents = _contents(folder, description)
    tensors = _read_tensors(folder / TABLE_FILE, contents[TABLE_FILE])
    tokenizers = [_read_tokenizer(folder, one, contents) for one in description.tokenizers]
    tables = {one.kind: _table(folder, one.kind, tensors) for one in tokenizers}
    spare = {*tables, *(name + SCALES for name in tables)}
    weights = {name: tensor for name, tensor in tensors.items() if name not in spare}
    model = Model(tokenizers, description.network, tables, weights)
    _check_fit(folder, description, model)
    found = description.model_hash(_bytes(contents))
    if found != description.hash:
        raise UsageError(
            f"{folder}: the files do not belong together: they hash to {found} but {CONFIG_FILE} says "
            f"{description.hash}; copy the whole folder again, or train again"
        )
    return description, model


def _check_folder(folder: Path) -> ModelDescription:
    """The description of the folder, after a look at whether all files are there."""
    if not folder.is_dir():
        hint = "a model is the folder that `bitext train` writes"
        raise UsageError(f"{folder}: {'not a folder' if folder.exists() else 'no such model folder'}; {hint}")
    description = read_description(folder) if (folder / CONFIG_FILE).is_file() else None
    names = (CONFIG_FILE,) if description is None else (TABLE_FILE, *description.files())
    missing = [name for name in names if not (folder / name).is_file()]
    if description is None or missing:
        mend = "the training has not finished: run it again" if (folder / "checkpoint").is_dir() else "copy it again"
        raise UsageError(f"{folder}: not a whole model, it lacks {', '.join(missing)}; {mend}")
    return description


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


def _read_tokenizer(folder: Path, described: TokenizerDescription, contents: Contents) -> Tokenizer:
    own = {name: contents[name].tobytes() for name in described.files}
    try:
        return load_tokenizer(described.kind, own, described.settings)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; copy it again") from None


def _check_fit(folder: Path, description: ModelDescription, model: Model) -> None:
    path, mend = folder / TABLE_FILE, "the files are of different models"
    for described, one in zip(description.tokenizers, model.tokenizers, strict=True):
        rows, wanted = len(model.tables[one.kind].values), one.size * (1 if description.shared else 2)
        if rows != wanted:
            names = ", ".join(str(folder / name) for name in described.files)
            raise UsageError(f"{path}: {rows} rows of {one.kind}, but {names} ask for {wanted}; {mend}")
    for name, weight in model.weights.items():
        if not _is_float32(weight):
            raise UsageError(f"{path}: '{short(name)}' is {weight.dtype}, not float32; {mend}")
    try:
        dim = model.outline.dim
    except ValueError as error:
        raise UsageError(f"{path}: does not fit {folder / CONFIG_FILE}: {error}; {mend}") from None
    if dim != description.dim:
        raise UsageError(
            f"{path}: vectors of dimension {dim}, but {folder / CONFIG_FILE} says dim {description.dim}; {mend}"
        )
