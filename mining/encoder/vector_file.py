"""Files of sentence vectors that say what they hold: rows, dimension, dtype, normalisation and
model.

``OUT.npy`` is a plain numpy matrix with two companions, ``OUT.npy.rows.parquet`` (id, valid) and
``OUT.npy.json`` (the facts, written last). ``OUT.parquet`` is one file with the columns id, vector,
valid and the facts in its schema.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mining.encoder.protocol import row_fault
from mining.errors import RunError, UsageError
from mining.io.arrays import GrowingArray
from mining.io.atomic import check_place, replacing
from mining.io.json_file import write_json

FORMAT_VERSION = 2
"""Raised with `unseen.READING` too: vectors of texts that were read otherwise are not compared."""
METADATA_KEY = b"bitext_vectors"
DTYPES = ("float32", "float16")
_FACTS = ("format_version", "rows", "dim", "dtype", "normalised", "model_hash")
Block = tuple[Sequence[str] | pa.Array, np.ndarray, np.ndarray]
"""Ids (Python or Arrow strings), (n, dim) float32 unit rows, (n,) bool validity of some consecutive
rows."""


class Vectors(NamedTuple):
    """Vectors of the rows of a corpus, in the order of the corpus."""

    ids: list[str]
    vectors: np.ndarray
    """(rows, dim) float32 or float16; memory-mapped when read from ``.npy``"""
    valid: np.ndarray
    """(rows,) bool; an invalid row is all zeros"""
    model_hash: str
    """name of the model that made them"""


class Written(NamedTuple):
    """What a vector file holds."""

    rows: int
    invalid: int
    dim: int


def write_vectors(
    path: str | Path, blocks: Iterable[Block], *, dim: int, model_hash: str, dtype: str = "float32"
) -> Written:
    """Write blocks of vectors to ``.npy`` or ``.parquet``, one block in memory at a time.

    The files appear under their names only when whole. Raises UsageError for another extension,
    another dtype than float32 or float16, or a folder that cannot be written; RunError when a block
    does not have the shape it should.
    """
    path = Path(path)
    suffix = check_target(path, dtype)
    sink = _write_npy if suffix == ".npy" else _write_parquet
    return sink(path, _checked(blocks, dim, dtype), dim, model_hash, dtype)


def check_target(path: Path, dtype: str = "float32") -> str:
    """The extension of a vector file to be written; raises UsageError when it cannot be one."""
    if path.suffix not in {".npy", ".parquet"}:
        raise UsageError(f"{path}: the name of a vector file ends in .npy or .parquet")
    if dtype not in DTYPES:
        raise UsageError(f"dtype '{dtype}': vectors are kept as {' or '.join(DTYPES)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path}: the folder {path.parent} cannot be written; name another with -o")
    for place in (path, *(_companion(path, end) for end in (".json", ".rows.parquet") if path.suffix == ".npy")):
        check_place(place)
    return path.suffix


def read_vectors(path: str | Path, *, dim: int | None = None, model_hash: str | None = None) -> Vectors:
    """Read a vector file, and check it against its own facts and against what the caller expects.

    Raises UsageError when the file is missing, has no facts (a plain ``.npy`` of another program),
    was cut short, holds a row that is no unit vector, or is of another dimension or model than
    asked for. All rows are read for that.
    """
    path = Path(path)
    if path.suffix not in {".npy", ".parquet"}:
        raise UsageError(f"{path}: the name of a vector file ends in .npy or .parquet")
    if not path.is_file():
        raise UsageError(f"{path}: no such vector file; `bitext encode -o {path}` writes one")
    facts, vectors = _read_npy(path) if path.suffix == ".npy" else _read_parquet(path)
    if dim is not None and facts["dim"] != dim:
        raise UsageError(f"{path}: vectors of dimension {facts['dim']}, but {dim} is expected; encode again")
    if model_hash is not None and facts["model_hash"] != model_hash:
        raise UsageError(
            f"{path}: vectors of the model {facts['model_hash']}, but the model in use is {model_hash}; encode again"
        )
    fault = row_fault(vectors.vectors, vectors.valid)
    if fault is not None:
        row, wrong = fault
        raise UsageError(f"{path}: row {row + 1} (id '{vectors.ids[row]}') {wrong}: the file was changed; encode again")
    return vectors


def _checked(blocks: Iterable[Block], dim: int, dtype: str) -> Iterator[Block]:
    for ids, vectors, valid in blocks:
        if vectors.shape != (len(ids), dim) or valid.shape != (len(ids),):
            raise RunError(
                f"a block of {len(ids)} rows came with vectors of shape {vectors.shape} and validity of shape "
                f"{valid.shape}: expected ({len(ids)}, {dim}) and ({len(ids)},)"
            )
        yield ids, np.ascontiguousarray(vectors, dtype=dtype), np.ascontiguousarray(valid, dtype=bool)


def _strings(ids: Sequence[str] | pa.Array) -> pa.Array:
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())


def _facts(rows: int, dim: int, dtype: str, model_hash: str) -> dict[str, Any]:
    values = (FORMAT_VERSION, rows, dim, dtype, True, model_hash)
    return dict(zip(_FACTS, values, strict=True))


def _companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _write_npy(path: Path, blocks: Iterator[Block], dim: int, model_hash: str, dtype: str) -> Written:
    valid_rows = 0
    facts_path, rows_path = _companion(path, ".json"), _companion(path, ".rows.parquet")
    schema = pa.schema([("id", pa.string()), ("valid", pa.bool_())])
    with replacing(path) as matrix_temporary, replacing(rows_path) as rows_temporary:
        with (
            GrowingArray(matrix_temporary, dtype, (dim,)) as matrix,
            open(rows_temporary, "wb") as rows_file,
            pq.ParquetWriter(rows_file, schema) as writer,
        ):
            for ids, vectors, valid in blocks:
                matrix.append(vectors)
                writer.write_batch(pa.record_batch([_strings(ids), pa.array(valid)], schema=schema))
                valid_rows += int(valid.sum())
        # Without the facts nobody reads the other two, which now get their names.
        facts_path.unlink(missing_ok=True)
        rows = matrix.rows
    write_json(facts_path, _facts(rows, dim, dtype, model_hash), sort_keys=False)
    return Written(rows, rows - valid_rows, dim)


def _write_parquet(path: Path, blocks: Iterator[Block], dim: int, model_hash: str, dtype: str) -> Written:
    rows = valid_rows = 0
    vector_type = _vector_type({"dtype": dtype, "dim": dim})
    schema = pa.schema([("id", pa.string()), ("vector", vector_type), ("valid", pa.bool_())])
    with replacing(path) as temporary:
        # Unit vectors are noise to a dictionary or a compressor: plain bytes are smaller and
        # faster.
        options: dict[str, Any] = {"compression": {"id": "zstd"}, "use_dictionary": False}
        with open(temporary, "wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
            for ids, vectors, valid in blocks:
                flat = pa.array(vectors.reshape(-1), vector_type.value_type)
                columns = [_strings(ids), pa.FixedSizeListArray.from_arrays(flat, dim), pa.array(valid)]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                rows += len(ids)
                valid_rows += int(valid.sum())
            facts = json.dumps(_facts(rows, dim, dtype, model_hash))
            writer.add_key_value_metadata({METADATA_KEY.decode(): facts})
    return Written(rows, rows - valid_rows, dim)


def _parse_facts(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
        missing = [key for key in _FACTS if key not in dict(facts)]
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: the description of the vectors is damaged ({error}); encode again") from None
    if missing:
        raise UsageError(f"{where}: the description of the vectors lacks {', '.join(missing)}; encode again")
    counts = all(type(facts[key]) is int and facts[key] >= least for key, least in (("rows", 0), ("dim", 1)))
    known = facts["format_version"] == FORMAT_VERSION and facts["dtype"] in DTYPES and facts["normalised"] is True
    if not known or not counts or not isinstance(facts["model_hash"], str):
        raise UsageError(f"{where}: vectors in a form that this version does not read; encode again")
    return dict(facts)


def _read_npy(path: Path) -> tuple[dict[str, Any], Vectors]:
    facts_path, rows_path = _companion(path, ".json"), _companion(path, ".rows.parquet")
    missing = [companion.name for companion in (facts_path, rows_path) if not companion.is_file()]
    if missing:
        raise UsageError(
            f"{path}: {' and '.join(missing)} beside it is missing, so nothing says which model and rows these numbers "
            "belong to; write the file with `bitext encode`, and keep its companions with it"
        )
    facts = _parse_facts(facts_path.read_bytes(), str(facts_path))
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False) if facts["rows"] else np.load(path)
    except (ValueError, OSError, EOFError) as error:
        raise UsageError(f"{path}: not a numpy file, or cut short ({error}); encode again") from None
    expected = (facts["rows"], facts["dim"])
    if matrix.shape != expected or matrix.dtype != np.dtype(facts["dtype"]):
        raise UsageError(
            f"{path}: {matrix.dtype} of shape {matrix.shape}, but {facts_path.name} says {facts['dtype']} of shape "
            f"{expected}; encode again"
        )
    try:
        with rows_path.open("rb") as file:
            rows = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(f"{rows_path}: damaged ({error}); encode again") from None
    if rows.num_rows != facts["rows"]:
        raise UsageError(f"{rows_path}: {rows.num_rows} rows, but {path.name} has {facts['rows']}; encode again")
    _check_columns(rows, {"id": pa.string(), "valid": pa.bool_()}, rows_path)
    return facts, Vectors(rows["id"].to_pylist(), matrix, rows["valid"].to_numpy(), facts["model_hash"])


def _check_columns(table: pa.Table, types: dict[str, pa.DataType], path: Path) -> None:
    """Raise UsageError unless the columns are there, of these types and without nulls."""
    for name, kind in types.items():
        found = table.schema.field(name).type if name in table.column_names else None
        if found != kind or table[name].null_count:
            wrong = f"column '{name}' is {found}, not {kind}" if found != kind else f"column '{name}' has nulls"
            raise UsageError(f"{path}: {wrong if found else f'column {name!r} is missing'}; encode again")


def _read_parquet(path: Path) -> tuple[dict[str, Any], Vectors]:
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:
            metadata = file.schema_arrow.metadata or {}
            metadata = {**metadata, **(file.metadata.metadata or {})}
            table = file.read() if METADATA_KEY in metadata else None
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(f"{path}: not a Parquet file, or cut short ({error}); encode again") from None
    if table is None:
        raise UsageError(f"{path}: a Parquet file, but not of vectors; write one with `bitext encode`")
    facts = _parse_facts(metadata[METADATA_KEY], str(path))
    _check_columns(table, {"id": pa.string(), "vector": _vector_type(facts), "valid": pa.bool_()}, path)
    if table.num_rows != facts["rows"]:
        raise UsageError(f"{path}: {table.num_rows} rows, but it says {facts['rows']}; encode again")
    parts = [chunk.flatten() for chunk in table["vector"].chunks]
    if any(part.null_count for part in parts):
        raise UsageError(f"{path}: column 'vector' has nulls; encode again")
    flat = np.concatenate([np.zeros(0, facts["dtype"]), *(part.to_numpy() for part in parts)])
    matrix = flat.reshape(facts["rows"], facts["dim"])
    return facts, Vectors(table["id"].to_pylist(), matrix, table["valid"].to_numpy(), facts["model_hash"])


def _vector_type(facts: dict[str, Any]) -> pa.DataType:
    return pa.list_(pa.float32() if facts["dtype"] == "float32" else pa.float16(), facts["dim"])
