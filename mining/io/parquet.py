"""Parquet files of tables whose bytes do not depend on how their rows arrived."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mining.errors import InputError, UsageError
from mining.io.atomic import replacing

#: Rows of a row group: fixed, so that the bytes do not depend on the blocks that were written.
GROUP_ROWS = 65_536
#: Columns of few distinct values, stored by dictionary. For ids, texts and scores, of which hardly
#: two are equal, the dictionary that Parquet tries by default made files larger by a tenth to a
#: fifth and took half of the writing time.
_FEW_VALUES = frozenset(
    {
        *("rank", "direction", "source_occurrences", "target_occurrences", "forward_rank", "backward_rank"),
        *("side", "file", "reason", "occurrences"),
    }
)


def write_parquet(path: str | Path, schema: pa.Schema, blocks: Iterable[pa.Table]) -> int:
    """Write blocks of rows as one Parquet file with equal row groups; returns the number of rows.

    A row group is compressed on a thread of its own while the next blocks are made; no more than
    one waits.
    """
    rows = 0
    few = [name for name in schema.names if name in _FEW_VALUES]
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=few) as writer,
        ThreadPoolExecutor(1) as pool,
    ):
        written: Future[None] | None = None
        for group in _groups(schema, blocks):
            if written is not None:
                written.result()
            written = pool.submit(writer.write_table, group, row_group_size=GROUP_ROWS)
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


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file; raises UsageError when it is missing, InputError when it is damaged or
    lacks a column."""
    try:
        with pa.memory_map(os.fsencode(path)) as file:  # names that are not UTF-8 are taken as bytes
            return pq.read_table(file, columns=columns)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None


def read_parquet_schema(path: str | Path) -> pa.Schema:
    """The columns of a Parquet file; errors as of `read_parquet`."""
    try:
        with pa.memory_map(os.fsencode(path)) as file:
            return pq.read_schema(file)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None
