"""Distinct sentences: duplicates are found, and what is left is dealt out to shards.

``dedup`` finds the duplicates of one side within one bucket of keys: equal texts, and ids that
stand twice (an error). ``shard`` makes one shard of consecutive chunks: id, text and number of
occurrences.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.corpus import first_occurrence
from mining.errors import InputError
from mining.io.parquet import read_parquet, write_parquet
from pipelines.arrays import open_array
from pipelines.engine import Context
from pipelines.records import Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.corpus import KEY, Chunk, ReadSide

SHARD_SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("occurrences", pa.int64())])
#: A duplicate: the chunk and position of the row, and of the row whose text is kept.
DUPLICATE = np.dtype([("chunk", "<i8"), ("position", "<i8"), ("kept_chunk", "<i8"), ("kept_position", "<i8")])
#: Keys compared in one bucket of the search for duplicates: 24 bytes each.
BUCKET_ROWS = 4_000_000


@dataclass(frozen=True)
class DedupInputs:
    """The chunks of a side, and the keys of their texts and of their ids."""

    chunks: Listing
    texts: Listing
    ids: Listing


@dataclass(frozen=True)
class DedupParams:
    """The step is for keys in `bucket` of `buckets`."""

    side: str
    bucket: int
    buckets: int


@dataclass(frozen=True)
class DedupReport:
    """The duplicates of the bucket, by chunk and position, and how many there are in each chunk."""

    duplicates: Artefact
    per_chunk: list[int]


def _bucket(keys: Listing, params: DedupParams) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Keys (n, 16), chunks and positions of the bucket's rows in all chunks."""
    low, high = ((bucket << 64) // params.buckets for bucket in (params.bucket, params.bucket + 1))
    parts, chunks = [np.empty(0, dtype=KEY)], [np.empty(0, dtype=np.int64)]
    for number, path in enumerate(keys.read().paths):
        table = open_array(path, KEY, (None,))
        start = bisect.bisect_left(table, low, key=lambda row: int(row["high"]))
        stop = bisect.bisect_left(table, high, key=lambda row: int(row["high"]))
        parts.append(np.array(table[start:stop]))
        chunks.append(np.full(stop - start, number, dtype=np.int64))
    table = np.concatenate(parts)
    found = np.ascontiguousarray(np.stack([table["high"], table["low"]], axis=1)).view(np.uint8).reshape(-1, 16)
    return found, np.concatenate(chunks), table["position"].astype(np.int64)


def _row(chunk: str, position: int) -> dict[str, Any]:
    """Id, file and line of a row."""
    return dict(read_parquet(chunk, columns=["id", "file", "line"]).slice(position, 1).to_pylist()[0])


def _check_ids(inputs: DedupInputs, params: DedupParams) -> None:
    keys, chunks, positions = _bucket(inputs.ids, params)
    first = first_occurrence(keys, chunks, positions)
    again = np.flatnonzero(first != np.arange(len(first)))
    paths = inputs.chunks.read().paths
    for second in again[np.lexsort((positions[again], chunks[again]))].tolist():
        rows = [_row(paths[chunks[i]], int(positions[i])) for i in (second, first[second])]
        if rows[0]["id"] != rows[1]["id"]:  # only their keys are equal
            continue
        names = [f"{row['file']}, line {row['line']} (id '{row['id']}')" for row in rows]
        raise InputError(
            f"{names[0]}: this id stands twice on the {params.side} side, first at {names[1]}; "
            "give every row its own id"
        )


@stage("dedup", "pyarrow")
def dedup(inputs: DedupInputs, params: DedupParams, outputs: Outputs) -> DedupReport:
    """Find the duplicates of a bucket. Raises InputError for an id that stands twice."""
    _check_ids(inputs, params)
    keys, chunks, positions = _bucket(inputs.texts, params)
    first = first_occurrence(keys, chunks, positions)
    again = np.flatnonzero(first != np.arange(len(first)))
    found = np.empty(len(again), dtype=DUPLICATE)
    found["chunk"], found["position"] = chunks[again], positions[again]
    found["kept_chunk"], found["kept_position"] = chunks[first[again]], positions[first[again]]
    found = found[np.lexsort((found["position"], found["chunk"]))]
    per_chunk = np.bincount(found["chunk"], minlength=len(inputs.chunks.read().paths))
    return DedupReport(outputs.save(f"{outputs.name}.npy", found), per_chunk.tolist())


@dataclass(frozen=True)
class ShardInputs:
    """The chunks of a shard, and the duplicates of all buckets of its side."""

    chunks: Listing
    duplicates: Listing


@dataclass(frozen=True)
class ShardReport:
    """The rows of a shard: id, text, number of occurrences."""

    table: Artefact
    rows: int


def duplicates_in(paths: list[str], column: str, chunk: int) -> NDArray[np.void]:
    """The duplicates of all buckets with this chunk in `column` (``chunk``, by which they are
    sorted, or ``kept_chunk``)."""
    tables = [open_array(path, DUPLICATE, (None,)) for path in paths]
    if column == "chunk":
        limits = [np.searchsorted(table["chunk"], [chunk, chunk + 1]) for table in tables]
        return np.concatenate([np.empty(0, DUPLICATE), *(t[a:b] for t, (a, b) in zip(tables, limits, strict=True))])
    return np.concatenate([np.empty(0, DUPLICATE), *(table[table[column] == chunk] for table in tables)])


def kept_rows(chunk: pa.Table, paths: list[str], number: int) -> NDArray[np.bool_]:
    """Which rows of a chunk are usable and no duplicate: (rows,) bool."""
    keep = pc.is_null(chunk.column("reason")).to_numpy(zero_copy_only=False).copy()
    keep[duplicates_in(paths, "chunk", number)["position"]] = False
    return keep


@stage("shard", "pyarrow")
def shard(inputs: ShardInputs, first: int, outputs: Outputs) -> ShardReport:
    """Write the kept rows of a shard's chunks, of which the first has the number `first`."""
    paths = inputs.duplicates.read().paths

    def blocks() -> Iterator[pa.Table]:
        for number, path in enumerate(inputs.chunks.read().paths, first):
            table = read_parquet(path, columns=["id", "text", "reason"])
            keep = kept_rows(table, paths, number)
            occurrences = np.ones(len(table), dtype=np.int64)
            np.add.at(occurrences, duplicates_in(paths, "kept_chunk", number)["kept_position"], 1)
            table = table.drop_columns("reason").append_column("occurrences", pa.array(occurrences))
            yield table.filter(pa.array(keep))

    name = f"{outputs.name}.parquet"
    rows = write_parquet(outputs.path(name), SHARD_SCHEMA, blocks())
    return ShardReport(outputs.artefact(name), rows)


@dataclass(frozen=True)
class Corpus:
    """One side without duplicates: by buckets of keys, and as shards."""

    read: ReadSide
    duplicates: list[DedupReport]
    shards: list[ShardReport]

    @property
    def side(self) -> str:
        """``source`` or ``target``."""
        return self.read.side

    @property
    def sizes(self) -> list[int]:
        """Rows of each shard."""
        return [shard.rows for shard in self.shards]

    @property
    def firsts(self) -> list[int]:
        """Row number of the first row of each shard."""
        return [0, *itertools.accumulate(self.sizes)][:-1]

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(self.sizes)


def plan_dedup(ctx: Context, side: ReadSide) -> list[Step[DedupReport]]:
    """One step a bucket of keys."""
    buckets = max(1, -(-side.rows // BUCKET_ROWS))
    inputs = DedupInputs(
        ctx.listing(chunk.table for chunk in side.chunks),
        ctx.listing(chunk.texts for chunk in side.chunks),
        ctx.listing(chunk.ids for chunk in side.chunks),
    )
    params = (DedupParams(side.side, bucket, buckets) for bucket in range(buckets))
    return ctx.numbered(dedup, side.side, ((inputs, each) for each in params))


def _shard_groups(ctx: Context, chunks: list[Chunk], duplicates: list[DedupReport]) -> list[list[Chunk]]:
    """Consecutive chunks, as many as fit together into the limits of a shard."""
    groups: list[list[Chunk]] = []
    dropped = [sum(counts) for counts in zip(*(report.per_chunk for report in duplicates), strict=True)]
    rows = size = 0
    for chunk, count in zip(chunks, dropped, strict=True):
        kept = chunk.usable - count
        if not groups or rows + kept > ctx.config.shard.rows or size + chunk.bytes > ctx.config.shard.bytes:
            groups.append([])
            rows = size = 0
        groups[-1].append(chunk)
        rows, size = rows + kept, size + chunk.bytes
    return groups


def plan_shard(ctx: Context, side: ReadSide, found: list[DedupReport]) -> list[Step[ShardReport]]:
    """One step a shard."""
    groups = _shard_groups(ctx, side.chunks, found)
    firsts = itertools.accumulate((len(group) for group in groups), initial=0)
    duplicates = ctx.listing(report.duplicates for report in found)
    inputs = [ShardInputs(ctx.listing(chunk.table for chunk in group), duplicates) for group in groups]
    return ctx.numbered(shard, side.side, zip(inputs, firsts, strict=False))


def drop_duplicates(ctx: Context, sides: Sides[ReadSide]) -> Sides[Corpus]:
    """Find the duplicates of both sides, and make shards without them."""
    duplicates = ctx.run_sides(sides, lambda side: plan_dedup(ctx, side))
    found = sides.with_other(duplicates)
    shards = ctx.run_sides(found, lambda item: plan_shard(ctx, *item))
    return found.with_other(shards).map(lambda item: Corpus(*item[0], item[1]))
