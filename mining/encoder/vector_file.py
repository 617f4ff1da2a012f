"""Files of sentence vectors that say what they hold: rows, dimension, dtype, normalisation and
model; and the encoding of a whole corpus into one, in memory that does not grow with it.

``OUT.npy`` is a plain numpy matrix with two companions, ``OUT.npy.rows.parquet`` (id, valid) and
``OUT.npy.json`` (the facts, written last). ``OUT.parquet`` is one file with the columns id, vector,
valid and the facts in its schema.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mining.config.encode import EncodeConfig
from mining.corpus import list_inputs, read_corpus
from mining.corpus.rows import table_blocks
from mining.encoder.load import load_encoder
from mining.encoder.protocol import Encoder, row_fault
from mining.encoder.word_cache.table import WordStatistics
from mining.errors import InputError, RunError, UsageError
from mining.io.arrays import GrowingArray
from mining.io.atomic import check_place, replacing
from mining.io.json_file import write_json
from mining.schemas import Reason

FORMAT_VERSION = 2
"""Raised with `unseen.READING` too: vectors of texts that were read otherwise are not compared."""
METADATA_KEY = b"bitext_vectors"
BLOCK_ROWS = 8192
BLOCK_BYTES = 8_000_000
"""A block of rows ends at so many bytes of text even when it has few rows."""
VectorType = Literal["float32", "float16"]
DTYPES: tuple[str, ...] = get_args(VectorType)
Block = tuple[Sequence[str] | pa.Array, np.ndarray, np.ndarray]
"""Ids (Python or Arrow strings), (n, dim) float32 unit rows, (n,) bool validity of some consecutive
rows."""


class _Facts(BaseModel):
    """What a file says of its vectors."""

    model_config = ConfigDict(strict=True, frozen=True)

    format_version: int = FORMAT_VERSION
    rows: int = Field(default=0, ge=0)
    dim: int = Field(ge=1)
    dtype: VectorType
    normalised: bool = True
    model_hash: str

    @property
    def vector_type(self) -> pa.DataType:
        """The type of the column of vectors in Parquet."""
        return pa.list_(pa.float32() if self.dtype == "float32" else pa.float16(), self.dim)

    def of(self, rows: int) -> dict[str, object]:
        """As plain data, for a file of so many rows."""
        return self.model_dump() | {"rows": rows}


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
    facts = _Facts.model_validate({"dim": dim, "dtype": dtype, "model_hash": model_hash})
    return sink(path, _checked(blocks, dim, dtype), facts)


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
    if dim is not None and facts.dim != dim:
        raise UsageError(f"{path}: vectors of dimension {facts.dim}, but {dim} is expected; encode again")
    if model_hash is not None and facts.model_hash != model_hash:
        raise UsageError(
            f"{path}: vectors of the model {facts.model_hash}, but the model in use is {model_hash}; encode again"
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


def _companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _write_npy(path: Path, blocks: Iterator[Block], facts: _Facts) -> Written:
    valid_rows = 0
    facts_path, rows_path = _companion(path, ".json"), _companion(path, ".rows.parquet")
    schema = pa.schema([("id", pa.string()), ("valid", pa.bool_())])
    with replacing(path) as matrix_temporary, replacing(rows_path) as rows_temporary:
        with (
            GrowingArray(matrix_temporary, facts.dtype, (facts.dim,)) as matrix,
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
    write_json(facts_path, facts.of(rows), sort_keys=False)
    return Written(rows, rows - valid_rows, facts.dim)


def _write_parquet(path: Path, blocks: Iterator[Block], facts: _Facts) -> Written:
    rows = valid_rows = 0
    schema = pa.schema([("id", pa.string()), ("vector", facts.vector_type), ("valid", pa.bool_())])
    # Unit vectors are noise to a dictionary or a compressor: plain bytes are smaller and faster.
    with (
        replacing(path) as temporary,
        open(temporary, "wb") as file,
        pq.ParquetWriter(file, schema, compression={"id": "zstd"}, use_dictionary=False) as writer,
    ):
        for ids, vectors, valid in blocks:
            flat = pa.array(vectors.reshape(-1), facts.vector_type.value_type)
            columns = [_strings(ids), pa.FixedSizeListArray.from_arrays(flat, facts.dim), pa.array(valid)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            rows += len(ids)
            valid_rows += int(valid.sum())
        writer.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(facts.of(rows))})
    return Written(rows, rows - valid_rows, facts.dim)


def _parse_facts(text: str | bytes, where: str) -> _Facts:
    try:
        found = json.loads(text)
        missing = [key for key in _Facts.model_fields if key not in dict(found)]
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: the description of the vectors is damaged ({error}); encode again") from None
    if missing:
        raise UsageError(f"{where}: the description of the vectors lacks {', '.join(missing)}; encode again")
    try:
        facts = _Facts.model_validate(found)
    except ValidationError:
        facts = None
    if facts is None or facts.format_version != FORMAT_VERSION or not facts.normalised:
        raise UsageError(f"{where}: vectors in a form that this version does not read; encode again")
    return facts


def _read_npy(path: Path) -> tuple[_Facts, Vectors]:
    facts_path, rows_path = _companion(path, ".json"), _companion(path, ".rows.parquet")
    missing = [companion.name for companion in (facts_path, rows_path) if not companion.is_file()]
    if missing:
        raise UsageError(
            f"{path}: {' and '.join(missing)} beside it is missing, so nothing says which model and rows these numbers "
            "belong to; write the file with `bitext encode`, and keep its companions with it"
        )
    facts = _parse_facts(facts_path.read_bytes(), str(facts_path))
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False) if facts.rows else np.load(path)
    except (ValueError, OSError, EOFError) as error:
        raise UsageError(f"{path}: not a numpy file, or cut short ({error}); encode again") from None
    expected = (facts.rows, facts.dim)
    if matrix.shape != expected or matrix.dtype != np.dtype(facts.dtype):
        raise UsageError(
            f"{path}: {matrix.dtype} of shape {matrix.shape}, but {facts_path.name} says {facts.dtype} of shape "
            f"{expected}; encode again"
        )
    try:
        with rows_path.open("rb") as file:
            rows = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(f"{rows_path}: damaged ({error}); encode again") from None
    if rows.num_rows != facts.rows:
        raise UsageError(f"{rows_path}: {rows.num_rows} rows, but {path.name} has {facts.rows}; encode again")
    _check_columns(rows, {"id": pa.string(), "valid": pa.bool_()}, rows_path)
    return facts, Vectors(rows["id"].to_pylist(), matrix, rows["valid"].to_numpy(), facts.model_hash)


def _check_columns(table: pa.Table, types: dict[str, pa.DataType], path: Path) -> None:
    """Raise UsageError unless the columns are there, of these types and without nulls."""
    for name, kind in types.items():
        found = table.schema.field(name).type if name in table.column_names else None
        if found != kind or table[name].null_count:
            wrong = f"column '{name}' is {found}, not {kind}" if found != kind else f"column '{name}' has nulls"
            raise UsageError(f"{path}: {wrong if found else f'column {name!r} is missing'}; encode again")


def _read_parquet(path: Path) -> tuple[_Facts, Vectors]:
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
    _check_columns(table, {"id": pa.string(), "vector": facts.vector_type, "valid": pa.bool_()}, path)
    if table.num_rows != facts.rows:
        raise UsageError(f"{path}: {table.num_rows} rows, but it says {facts.rows}; encode again")
    parts = [chunk.flatten() for chunk in table["vector"].chunks]
    if any(part.null_count for part in parts):
        raise UsageError(f"{path}: column 'vector' has nulls; encode again")
    flat = np.concatenate([np.zeros(0, facts.dtype), *(part.to_numpy() for part in parts)])
    matrix = flat.reshape(facts.rows, facts.dim)
    return facts, Vectors(table["id"].to_pylist(), matrix, table["valid"].to_numpy(), facts.model_hash)


class Encoded(NamedTuple):
    """What was written, and why some rows are invalid."""

    written: Written
    reasons: dict[str, int]
    replaced: int
    """rows with bytes that were no UTF-8"""
    words: WordStatistics | None
    """how often a word had been met before; None for a model that is not applied word by word"""


def encode_corpus(config: EncodeConfig, advance: Callable[[int], None] | None = None) -> Encoded:
    """Encode every row of the input, in order, into one row of the vector file ``config.out``.

    A row that cannot be used (blank, too long, without pieces) is a zero row marked invalid.
    `advance` is told the rows of each block. Raises UsageError for a faulty model, input or target
    name, InputError when no row can be encoded; no file is left then.
    """
    target = Path(config.out)
    if target.resolve() in {Path(file.path).resolve() for file in list_inputs(config.input)}:
        raise UsageError(f"{target}: is the input as well: name another output")
    check_target(target, config.dtype)
    encoder = load_encoder(
        config.model,
        config.device,
        dim=config.dim,
        dtype=config.table_dtype,
        language=config.language,
        word_memory=config.word_memory << 20,
    )
    tally = _Tally()
    blocks = _encoded(encoder, read_corpus(config.input), config.threads, tally)
    written = write_vectors(
        target,
        _watched(blocks, config, tally, advance),
        dim=encoder.dim,
        model_hash=encoder.hash,
        dtype=config.dtype,
    )
    return Encoded(written, dict(sorted(tally.reasons.items())), tally.replaced, encoder.statistics)


@dataclass
class _Tally:
    reasons: Counter[str] = field(default_factory=Counter)
    replaced: int = 0


def _encoded(encoder: Encoder, tables: Iterable[pa.Table], threads: int, tally: _Tally) -> Iterator[Block]:
    for table in table_blocks(tables, BLOCK_ROWS, BLOCK_BYTES):
        block = table.combine_chunks()
        texts, reasons = block.column("text").chunk(0), block.column("reason").chunk(0)
        vectors, valid = encoder.encode(pc.if_else(reasons.is_null(), texts, ""), threads)
        tally.reasons.update(reasons.fill_null(Reason.NO_PIECES).filter(pa.array(~valid)).to_pylist())
        tally.replaced += block.column("replaced").to_numpy().sum()
        yield block.column("id").chunk(0), vectors, valid


def _watched(
    blocks: Iterable[Block], config: EncodeConfig, tally: _Tally, advance: Callable[[int], None] | None
) -> Iterator[Block]:
    """Pass the blocks on; an input without a single usable row is an error before the file gets its
    name."""
    rows = usable = 0
    for block in blocks:
        rows += len(block[0])
        usable += int(block[2].sum())
        yield block
        if advance is not None:
            advance(len(block[0]))
    name = ", ".join(config.input.paths)
    if not rows:
        raise InputError(f"{name}: not a single row in it, nothing to encode")
    if not usable:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.reasons.items()))
        raise InputError(f"{name}: none of its {rows} rows can be encoded ({why}); check format, columns and text")
