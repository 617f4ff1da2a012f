"""The ledger: every row that is in no pair, with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.corpus.rows import PREVIEW_CHARS
from mining.io.parquet import read_parquet, write_parquet
from mining.schemas import CANDIDATE, DROPPED_SCHEMA, Reason
from pipelines.arrays import ShardFiles, open_array
from pipelines.engine import Context
from pipelines.records import Artefact, Listing, Sides
from pipelines.steps import Outputs, stage
from pipelines.transforms.duplicates import Corpus, duplicates_in, kept_rows

#: What became of a row that the reader passed, by code; the first stands for a row in a pair.
STATES = pa.array(["", Reason.UNMATCHED, Reason.BELOW_THRESHOLD, Reason.NO_PIECES, Reason.DUPLICATE], pa.string())
USED, UNMATCHED, BELOW, NO_PIECES, DUPLICATE_TEXT = range(len(STATES))
#: The row was dropped by the reader, which said why.
DROPPED = -1


@dataclass(frozen=True)
class LedgerLists:
    """The chunks of a side, and its duplicates."""

    chunks: Listing
    duplicates: Listing

    @classmethod
    def of(cls, ctx: Context, corpus: Corpus) -> LedgerLists:
        """The files of a side."""
        return cls(
            ctx.listing(chunk.table for chunk in corpus.read.chunks),
            ctx.listing(report.duplicates for report in corpus.duplicates),
        )


def _chunk_ledger(
    side: str, table: pa.Table, states: NDArray[np.int8], duplicates: NDArray[np.void], kept_ids: pa.Array
) -> pa.Table:
    """The unused rows of one chunk: reason of the reader, duplicate (and of which id), or the state
    of the kept row."""
    unused = np.flatnonzero(states != USED)
    rows, states = table.take(pa.array(unused)), states[unused]
    original = np.full(len(table), -1, dtype=np.int64)
    original[duplicates["position"]] = np.arange(len(duplicates))
    original = original[unused]
    columns = {
        "side": pa.repeat(pa.scalar(side, pa.string()), len(rows)),
        "id": rows.column("id"),
        "file": rows.column("file"),
        "line": rows.column("line"),
        "reason": pc.coalesce(rows.column("reason"), STATES.take(pa.array(states, mask=states == DROPPED))),
        "kept_id": kept_ids.take(pa.array(original, mask=original < 0)),
        "text": pc.utf8_slice_codeunits(rows.column("text"), 0, PREVIEW_CHARS),
    }
    return pa.table(columns, schema=DROPPED_SCHEMA)


def _ids_at(chunks: list[str], rows: NDArray[np.void]) -> pa.Array:
    """Ids of the kept rows of duplicates: `rows` has kept_chunk and kept_position."""
    parts, order = [pa.array([], pa.string())], [np.empty(0, dtype=np.int64)]
    for number in np.unique(rows["kept_chunk"]).tolist():
        here = np.flatnonzero(rows["kept_chunk"] == number)
        column = read_parquet(chunks[number], columns=["id"]).column("id")
        parts += column.take(pa.array(rows["kept_position"][here])).chunks
        order.append(here)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))


def ledger_blocks(side: str, files: LedgerLists, kept_states: NDArray[np.int8] | None) -> Iterator[pa.Table]:
    """The ledger of a side, chunk by chunk; without states of the kept rows, of the others only."""
    chunks, buckets = files.chunks.read().paths, files.duplicates.read().paths
    row = 0
    for number, path in enumerate(chunks):
        table = read_parquet(path)
        keep = kept_rows(table, buckets, number)
        duplicates = duplicates_in(buckets, "chunk", number)
        count = int(keep.sum())
        states = np.full(len(table), DROPPED, dtype=np.int8)
        states[duplicates["position"]] = DUPLICATE_TEXT
        states[keep] = USED if kept_states is None else kept_states[row : row + count]
        yield _chunk_ledger(side, table, states, duplicates, _ids_at(chunks, duplicates))
        row += count


@dataclass(frozen=True)
class DroppedInputs:
    """The matched pairs by row number, what the ledger needs, and which kept rows have a vector."""

    pairs: Artefact
    ledger: Sides[LedgerLists]
    valid: Sides[Listing]


@dataclass(frozen=True)
class DroppedReport:
    """The ledger, its rows, and how many there are of each reason on either side."""

    table: Artefact
    rows: int
    reasons: Sides[dict[str, int]]


def _states(rows: NDArray[np.int64], extracted: NDArray[np.bool_], valid: Listing) -> NDArray[np.int8]:
    """The state (n,) int8 of each kept row of a side; `rows` are those of the matched pairs, and
    `extracted` says which of these are at or above the threshold."""
    has_vector = np.concatenate(ShardFiles(valid.read(), bool).all())
    states = np.where(has_vector, UNMATCHED, NO_PIECES).astype(np.int8)
    states[rows[~extracted]] = BELOW
    states[rows[extracted]] = USED
    return states


def _count_reasons(path: str, side: str) -> dict[str, int]:
    table = pq.read_table(path, columns=["reason"], filters=pc.field("side") == side)
    counts = table.group_by("reason").aggregate([([], "count_all")]).to_pylist()
    return {row["reason"]: row["count_all"] for row in sorted(counts, key=lambda row: row["reason"])}


@stage("output", "numba", "pyarrow")
def write_dropped(inputs: DroppedInputs, threshold: float | None, outputs: Outputs) -> DroppedReport:
    """Write the ledger of all rows that are in no pair of at least this score (None: of any)."""
    pairs = open_array(inputs.pairs.path, CANDIDATE, (None,))
    extracted = np.ones(len(pairs), dtype=bool) if threshold is None else pairs["score"] >= threshold
    path = outputs.path("dropped.parquet")

    def blocks() -> Iterator[pa.Table]:
        sides = Sides("source", "target")
        for side, (ledger, valid) in sides.with_other(inputs.ledger.with_other(inputs.valid)):
            yield from ledger_blocks(side, ledger, _states(pairs[side], extracted, valid))

    rows = write_parquet(path, DROPPED_SCHEMA, blocks())
    reasons = Sides("source", "target").map(lambda side: _count_reasons(path, side))
    return DroppedReport(outputs.artefact("dropped.parquet"), rows, reasons)
