"""Reading the corpora: row rules, chunks of bounded size, and keys by which duplicates are found.

Each chunk is a Parquet file of all its rows, usable or not, and two sorted arrays of keys: of its
texts and of its ids.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.corpus import CorpusSpec, InputFile, read_tables
from mining.corpus.dedup import id_keys, key_order, text_keys
from mining.errors import InputError, UsageError
from mining.io.files import new_digest
from mining.io.parquet import write_parquet
from pipelines.engine import Context
from pipelines.inputs import HashedFile
from pipelines.records import NOT_IN_KEY, Artefact, Sides
from pipelines.steps import Outputs, Step, stage

#: What is kept of a row.
ROWS_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string())]
)
#: A key as two numbers, so that a bucket of keys is a range of the first, and the position of its
#: row in the chunk.
KEY = np.dtype([("high", ">u8"), ("low", ">u8"), ("position", "<i8")])


@dataclass(frozen=True)
class ReadParams:
    """How to read it: `name` is that of the file in ids, `rows` and `bytes` limit a chunk."""

    spec: CorpusSpec
    name: str
    rows: int
    bytes: int
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class Chunk:
    """A chunk: its rows, the keys of its texts and of its ids; `bytes` are those of its texts."""

    table: Artefact
    texts: Artefact
    ids: Artefact
    rows: int
    usable: int
    bytes: int


@dataclass(frozen=True)
class ReadReport:
    """The chunks of a file, how many rows were dropped for which reason, and in how many invalid
    UTF-8 was replaced."""

    chunks: list[Chunk]
    reasons: dict[str, int]
    replaced: int


def sorted_keys(keys: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.void]:
    """Keys (n, 16) and the rising positions (n,) of their rows, by key and position."""
    halves = keys.view(">u8").astype(np.uint64)
    order = key_order(halves[:, 0], halves[:, 1], positions)
    table = np.empty(len(keys), dtype=KEY)
    table["high"], table["low"], table["position"] = halves[order, 0], halves[order, 1], positions[order]
    return table


class _ChunkWriter:
    """Rows until the chunk is full, as Arrow tables, and their keys."""

    def __init__(self, params: ReadParams) -> None:
        self.params = params
        self.tables: list[pa.Table] = []
        self.text_keys, self.text_positions = [np.empty((0, 16), np.uint8)], [np.empty(0, np.int64)]
        self.id_keys = [np.empty((0, 16), np.uint8)]
        self.rows = self.bytes = 0
        self.reasons: Counter[str] = Counter()

    def take(self, table: pa.Table) -> int:
        """Add the first rows of a table until the chunk is full; returns how many that are. An
        empty chunk takes at least one."""
        before = np.cumsum(pc.binary_length(table.column("text")).to_numpy())
        before = np.concatenate(([0], before)) + self.bytes
        count = min(self.params.rows - self.rows, int(np.searchsorted(before[:-1], self.params.bytes)))
        if count > 0:
            self._add(table.slice(0, count), int(before[count]))
        return max(count, 0)

    def _add(self, table: pa.Table, size: int) -> None:
        table = table.combine_chunks()
        usable = np.flatnonzero(pc.is_null(table.column("reason")).to_numpy())
        texts = table.column("text").chunk(0)
        texts = texts if len(usable) == len(table) else texts.take(pa.array(usable))
        self.text_keys.append(text_keys(texts, self.params.threads))
        self.text_positions.append(self.rows + usable)
        self.id_keys.append(id_keys(table.column("id").chunk(0), self.params.threads))
        if len(usable) < len(table):
            self.reasons.update(table.column("reason").drop_null().to_pylist())
        self.tables.append(table.select(ROWS_SCHEMA.names))
        self.rows, self.bytes = self.rows + len(table), size

    def write(self, outputs: Outputs, name: str) -> Chunk:
        """Write the files of the chunk."""
        write_parquet(outputs.path(f"{name}.parquet"), ROWS_SCHEMA, self.tables)
        positions = np.concatenate(self.text_positions)
        return Chunk(
            table=outputs.artefact(f"{name}.parquet"),
            texts=outputs.save(f"{name}.texts.npy", sorted_keys(np.concatenate(self.text_keys), positions)),
            ids=outputs.save(f"{name}.ids.npy", sorted_keys(np.concatenate(self.id_keys), np.arange(self.rows))),
            rows=self.rows,
            usable=len(positions),
            bytes=self.bytes,
        )


@stage("read", "numba", "pyarrow", "unicode")
def read(inputs: Artefact, params: ReadParams, outputs: Outputs) -> ReadReport:
    """Read a file into chunks. Raises InputError when it is not what the run began with."""
    digest = new_digest()
    chunks: list[Chunk] = []
    reasons: Counter[str] = Counter()
    replaced = 0
    chunk = _ChunkWriter(params)

    def close() -> None:
        chunks.append(chunk.write(outputs, f"{outputs.name}.{len(chunks):05d}"))
        reasons.update(chunk.reasons)

    for table in read_tables(params.spec, InputFile(path=inputs.path, name=params.name), digest):
        replaced += pc.sum(table.column("replaced")).as_py() or 0
        while len(table):
            taken = chunk.take(table)
            if taken == 0:
                close()
                chunk = _ChunkWriter(params)
            table = table.slice(taken)
    if digest.hexdigest() != inputs.hash:
        raise InputError(f"{inputs.path}: changed while it was read: run the command again")
    if chunk.rows:
        close()
    return ReadReport(chunks, dict(sorted(reasons.items())), replaced)


@dataclass(frozen=True)
class ReadSide:
    """One side as it was read, in order of its files."""

    side: str
    files: list[ReadReport]

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks of all files."""
        return [chunk for file in self.files for chunk in file.chunks]

    @property
    def rows(self) -> int:
        """All rows, usable or not."""
        return sum(chunk.rows for chunk in self.chunks)

    def check_not_empty(self, paths: list[str]) -> None:
        """Raise InputError when no row is usable; `paths` are what the user gave."""
        if any(chunk.usable for chunk in self.chunks):
            return
        reasons: Counter[str] = Counter()
        for file in self.files:
            reasons.update(file.reasons)
        why = "the file is empty" if len(paths) == 1 else "all files are empty"
        if self.rows:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
            why = f"all {self.rows} rows were dropped ({counts})"
        raise InputError(
            f"{', '.join(paths)}: no usable sentence on the {self.side} side: {why}; check the path and the text column"
        )


def plan_read(ctx: Context, side: str, spec: CorpusSpec, files: list[HashedFile]) -> list[Step[ReadReport]]:
    """One step an input file."""
    for file in files:
        if ctx.folder.resolve() in Path(file.path).resolve().parents:
            raise UsageError(f"{file.path}: is input and lies in the run folder {ctx.folder}: choose another output")
    rows, size = ctx.config.shard.rows, ctx.config.shard.bytes

    def params(file: HashedFile) -> ReadParams:
        own = spec.model_copy(update={"path": [file.name]})
        return ReadParams(own, file.name, rows, size, ctx.threads)

    return ctx.numbered(read, side, ((file.artefact, params(file)) for file in files))


def read_corpus(ctx: Context) -> Sides[ReadSide]:
    """Read the files of both sides. Raises InputError when a side has no usable sentence."""
    names, specs = Sides("source", "target"), ctx.inputs.specs
    given = names.with_other(specs).with_other(ctx.inputs.files)
    reports = ctx.run_sides(given, lambda item: plan_read(ctx, *item[0], item[1]))
    sides = names.with_other(reports).map(lambda item: ReadSide(*item))
    for side, spec in sides.with_other(specs):
        side.check_not_empty(spec.paths)
    return sides
