"""Files of mined pairs: reading and writing them as Parquet, TSV or JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mining.corpus.lines import FaultyLine, numbered_lines, without_marks
from mining.errors import InputError, UsageError
from mining.io.atomic import replacing
from mining.io.tsv import tsv_bytes
from mining.schemas import PAIRS_SCHEMA
from mining.text_arrays import text_array

#: Rows of a Parquet row group: fixed, so that the bytes do not depend on how the rows arrived.
GROUP_ROWS = 65_536
#: Columns of few distinct values, stored by dictionary. For ids, texts and scores, of which hardly
#: two are equal, the dictionary that Parquet tries by default made files larger by a tenth to a
#: fifth and took half of the writing time.
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


def refuse_input(output: str | Path, inputs: Iterable[str | Path], flag: str = "") -> None:
    """Raise UsageError when an output would take the place of an input; `flag` names what it was
    given by."""
    place = Path(output).resolve()
    for path in inputs:
        if Path(path).resolve() == place:
            raise UsageError(f"{flag}{output}: is the input as well: name another output")


def write_parquet(path: str | Path, schema: pa.Schema, blocks: Iterable[pa.Table]) -> int:
    """Write blocks of rows as one Parquet file with equal row groups; returns the number of rows.

    A row group is compressed on a thread of its own while the next blocks are made; no more than
    one waits.
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
    """The rows of the blocks in tables of `GROUP_ROWS`, the last of which may be smaller; an empty
    one if there are none."""
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
    r"""Write a TSV file under a line of column names: yields a function that takes the blocks of
    rows.

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
    check_columns(table.column_names, columns, path)
    wrong = [name for name in columns if name.endswith("_id") and pa.types.is_floating(table.schema.field(name).type)]
    if wrong:
        raise InputError(f"{path}: column '{wrong[0]}' holds numbers with decimals: ids are texts or whole numbers")
    try:
        return table.select(columns).cast(pa.schema([PAIRS_SCHEMA.field(name) for name in columns]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: a value does not fit its column: {error}") from None


def check_columns(names: list[str], wanted: list[str], path: str | Path) -> None:
    """Raise UsageError when a wanted column of a file of pairs is missing or stands twice."""
    for name in wanted:
        if names.count(name) != 1:
            wrong = "is missing" if name not in names else "stands twice"
            raise UsageError(
                f"{path}: not a file of mined pairs: column '{name}' {wrong}; its columns are {', '.join(names)}"
            )


def _read_tsv(path: Path, lines: Iterator[tuple[int, str]], wanted: list[str]) -> pa.Table:
    header: list[str] = next(lines, (1, ""))[1].split("\t")
    columns: dict[int, list[str]] = {place: [] for place, name in enumerate(header) if name in wanted}
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise InputError(f"{path}:{number}: {len(fields)} columns where the first line names {len(header)}")
        for place, column in columns.items():
            column.append(fields[place])
    check_columns(header, wanted, path)
    return pa.table([text_array(column) for column in columns.values()], names=[header[place] for place in columns])


def _read_jsonl(path: Path, lines: Iterator[tuple[int, str]], wanted: list[str]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    for number, line in lines:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON lines: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}:{number}: not a JSON object: each line holds one pair")
        check_columns(list(record), wanted, f"{path}:{number}")
        for name, values in columns.items():
            values.append(record[name])
    try:
        return pa.table({name: _values(values) for name, values in columns.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{path}: a value does not fit its column: {error}") from None


def _values(values: list[Any]) -> pa.Array:
    if all(value is None or isinstance(value, str) for value in values):
        return text_array(values)
    return pa.array(values)


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a TSV or JSON lines file, compressed or not; only ``\n`` ends one."""
    for number, line in numbered_lines(str(path), "skip", MAX_LINE_CHARS):
        if isinstance(line, FaultyLine):
            raise InputError(
                f"{path}:{number}: {line.reason.words} in a file of mined pairs: correct or remove the line"
            )
        yield number, without_marks(line)


def read_pairs_file(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read mined pairs (`columns` of `PAIRS_SCHEMA`, by default all) from Parquet, TSV or JSON
    lines, the latter two compressed or not.

    Raises UsageError when the file is missing or has other columns, InputError when a row does not
    fit.
    """
    path = Path(path)
    columns = columns or PAIRS_SCHEMA.names
    if not path.is_file():
        raise UsageError(f"{path}: no such file of pairs")
    kind = next((s for s in path.suffixes[::-1] if s not in {".gz", ".bz2", ".xz", ".zst"}), "")
    if kind == ".parquet":
        check_columns(read_parquet_schema(path).names, columns, path)
        return _typed(read_parquet(path, columns), path, columns)
    if kind in (".tsv", ".jsonl"):
        read = _read_tsv if kind == ".tsv" else _read_jsonl
        return _typed(read(path, _text_lines(path), columns), path, columns)
    raise UsageError(f"{path}: pairs are read from .parquet, .tsv or .jsonl files")


def read_parquet_schema(path: str | Path) -> pa.Schema:
    """The columns of a Parquet file; errors as of `read_parquet`."""
    try:
        with pa.memory_map(os.fsencode(path)) as file:  # names that are not UTF-8 are taken as bytes
            return pq.read_schema(file)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file; raises UsageError when it is missing, InputError when it is damaged or
    lacks a column."""
    try:
        with pa.memory_map(os.fsencode(path)) as file:
            return pq.read_table(file, columns=columns)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None


def previews(texts: pa.Array) -> pa.Array:
    """The first 200 characters of each text."""
    return pc.utf8_slice_codeunits(texts, 0, PREVIEW_CHARS)
