"""The one schema of mined pairs, and reading and writing it as Parquet, TSV or JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mining.corpus.lines import FaultyLine, numbered_lines, without_marks
from mining.errors import InputError, UsageError
from mining.tsv import tsv_bytes

PAIRS_SCHEMA = pa.schema(
    [
        ("score", pa.float64()),
        ("cosine", pa.float64()),
        ("source_mean", pa.float64()),
        ("target_mean", pa.float64()),
        ("rank", pa.int32()),
        ("direction", pa.string()),
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("source_text", pa.string()),
        ("target_text", pa.string()),
        ("source_occurrences", pa.int64()),
        ("target_occurrences", pa.int64()),
    ]
)
#: What a row that is not used is recorded as (``dropped.parquet``).
DROPPED_SCHEMA = pa.schema(
    [
        ("side", pa.string()),
        ("id", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("kept_id", pa.string()),
        ("text", pa.string()),
    ]
)
#: All k candidates of both directions (``candidates.parquet``); rank 0 means: not found from that side.
CANDIDATES_SCHEMA = pa.schema(
    [
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("score", pa.float64()),
        ("cosine", pa.float64()),
        ("forward_rank", pa.int32()),
        ("backward_rank", pa.int32()),
    ]
)
#: Rows of a Parquet row group: fixed, so that the bytes do not depend on how the rows arrived.
GROUP_ROWS = 65_536
#: Columns of few distinct values, stored by dictionary. For ids, texts and scores, of which hardly two are equal, the
#: dictionary that Parquet tries by default made files larger by a tenth to a fifth and took half of the writing time.
_FEW_VALUES = frozenset(
    {
        "rank",
        "direction",
        "source_occurrences",
        "target_occurrences",
        "forward_rank",
        "backward_rank",
        "side",
        "file",
        "reason",
        "occurrences",
    }
)
PREVIEW_CHARS = 200
#: Longest line of a TSV or JSON lines file of pairs that is read back.
MAX_LINE_CHARS = 100_000_000
#: Marks a file that is being written.
TEMPORARY = ".tmp-"


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[str]:
    """A temporary name beside `path` that takes its place when the block ends without an error."""
    temporary = f"{path}{TEMPORARY}{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def write_parquet(path: str | Path, schema: pa.Schema, blocks: Iterable[pa.Table]) -> int:
    """Write blocks of rows as one Parquet file with equal row groups; returns the number of rows.

    A row group is compressed on a thread of its own while the next blocks are made; no more than one waits.
    """
    rows = 0
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": [n for n in schema.names if n in _FEW_VALUES]}
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, **options) as writer,
        ThreadPoolExecutor(1) as pool,
    ):
        written = None
        for group in _groups(schema, blocks):
            if written is not None:
                written.result()
            written = pool.submit(writer.write_table, group, GROUP_ROWS)
            rows += len(group)
        if written is not None:
            written.result()
    return rows


def _groups(schema: pa.Schema, blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of the blocks in tables of `GROUP_ROWS`, the last of which may be smaller; an empty one if there are
    none."""
    waiting, empty = 0, True
    pending: list[pa.Table] = [schema.empty_table()]
    for block in blocks:
        pending.append(block.cast(schema))
        waiting += len(block)
        while waiting >= GROUP_ROWS:
            table = pa.concat_tables(pending)
            yield table.slice(0, GROUP_ROWS).combine_chunks()
            pending, waiting, empty = [table.slice(GROUP_ROWS)], waiting - GROUP_ROWS, False
    if waiting or empty:
        yield pa.concat_tables(pending).combine_chunks()


@contextlib.contextmanager
def tsv_writer(path: str | Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    r"""Write a TSV file under a line of column names: yields a function that takes the blocks of rows.

    Floats have six decimals; a tab, ``\n`` or ``\r`` inside a text becomes a space; null is empty.
    """
    with replacing(path) as temporary, open(temporary, "wb") as out:
        out.write(("\t".join(schema.names) + "\n").encode("utf-8"))

        def write(block: pa.Table) -> None:
            out.write(tsv_bytes([block.column(name) for name in schema.names]))

        yield write


def write_tsv(path: str | Path, schema: pa.Schema, blocks: Iterable[pa.Table]) -> int:
    """Write blocks of rows as `tsv_writer` does; returns the number of rows."""
    rows = 0
    with tsv_writer(path, schema) as write:
        for block in blocks:
            write(block)
            rows += len(block)
    return rows


def _typed(table: pa.Table, path: Path, columns: list[str]) -> pa.Table:
    """The wanted columns with their types."""
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise UsageError(
            f"{path}: not a file of mined pairs: column '{missing[0]}' is missing; "
            f"its columns are {', '.join(table.column_names)}"
        )
    try:
        return table.select(columns).cast(pa.schema([PAIRS_SCHEMA.field(name) for name in columns]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: a value does not fit its column: {error}") from None


def _read_tsv(path: Path, lines: Iterator[tuple[int, str]]) -> pa.Table:
    header: list[str] = next(lines, (1, ""))[1].split("\t")
    columns: list[list[str]] = [[] for _ in header]
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise InputError(f"{path}:{number}: {len(fields)} columns where the first line names {len(header)}")
        for column, field in zip(columns, fields, strict=True):
            column.append(field)
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(header, columns, strict=True)})


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a TSV or JSON lines file, compressed or not; only ``\n`` ends one."""
    for number, line in numbered_lines(str(path), "strict", MAX_LINE_CHARS):
        if isinstance(line, FaultyLine):
            raise InputError(f"{path}:{number}: {line.reason.replace('_', ' ')} in a file of mined pairs")
        yield number, without_marks(line)


def read_pairs_file(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read mined pairs (`columns` of `PAIRS_SCHEMA`, by default all) from Parquet, TSV or JSON lines, the latter two
    compressed or not.

    Raises UsageError when the file is missing or has other columns, InputError when a row does not fit.
    """
    path = Path(path)
    columns = columns or PAIRS_SCHEMA.names
    if not path.is_file():
        raise UsageError(f"{path}: no such file of pairs")
    kind = next((s for s in path.suffixes[::-1] if s not in {".gz", ".bz2", ".xz", ".zst"}), "")
    if kind == ".parquet":
        return _typed(read_parquet(path), path, columns)
    if kind == ".tsv":
        return _typed(_read_tsv(path, _text_lines(path)), path, columns)
    if kind == ".jsonl":
        try:
            records = [json.loads(line) for _, line in _text_lines(path)]
            return _typed(pa.Table.from_pylist(records), path, columns)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: not JSON lines: {error}") from None
    raise UsageError(f"{path}: pairs are read from .parquet, .tsv or .jsonl files")


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file; raises UsageError when it is missing, InputError when it is damaged or lacks a column."""
    try:
        return pq.read_table(path, columns=columns, memory_map=True)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None


def previews(texts: pa.Array) -> pa.Array:
    """The first 200 characters of each text."""
    return pc.utf8_slice_codeunits(texts, 0, PREVIEW_CHARS)
