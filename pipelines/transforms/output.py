"""The files a user opens: the pairs at or above the threshold, and the ledger of every row that is
not used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.io.parquet import read_parquet, write_parquet
from mining.io.tsv import tsv_writer
from mining.pairs import previews
from mining.schemas import CANDIDATE, DROPPED_SCHEMA, PAIRS_SCHEMA, Reason
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardFiles, open_array
from pipelines.transforms.shard import duplicates_in, kept_rows

#: What became of a row that the reader passed, by code; the first stands for a row in a pair.
STATES = pa.array(["", Reason.UNMATCHED, Reason.BELOW_THRESHOLD, Reason.NO_PIECES, Reason.DUPLICATE], pa.string())
USED, UNMATCHED, BELOW, NO_PIECES, DUPLICATE_TEXT = range(len(STATES))
#: The row was dropped by the reader, which said why.
DROPPED = -1
SIDES = ("source", "target")


def _pairs(step: Step, outputs: Outputs) -> dict[str, Any]:
    limit = step.params["threshold"]
    matched = step.path(step.execution["matched"])

    def blocks(write: Callable[[pa.Table], None]) -> Iterator[pa.Table]:
        with pq.ParquetFile(matched) as file:
            for batch in file.iter_batches():
                table = pa.Table.from_batches([batch])
                table = table if limit is None else table.filter(pc.greater_equal(table.column("score"), limit))
                write(table)
                yield table

    with tsv_writer(outputs.path("pairs.tsv"), PAIRS_SCHEMA) as write:
        rows = write_parquet(outputs.path("pairs.parquet"), PAIRS_SCHEMA, blocks(write))
    return {"pairs": rows}


def _states(step: Step, side: str) -> NDArray[np.int8]:
    """The state of each kept row of a side: (rows,) int8."""
    valid = np.concatenate(ShardFiles(step.files(f"{side}.valid"), bool).all())
    states = np.where(valid, UNMATCHED, NO_PIECES).astype(np.int8)
    pairs = open_array(step.path(step.execution["pairs"]), CANDIDATE, (None,))
    limit = step.params["threshold"]
    extracted = np.ones(len(pairs), dtype=bool) if limit is None else pairs["score"] >= limit
    states[pairs[side][~extracted]] = BELOW
    states[pairs[side][extracted]] = USED
    return states


def _chunk_ledger(
    side: str, table: pa.Table, states: NDArray[np.int8], duplicates: NDArray[Any], kept_ids: pa.Array
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
        "text": previews(rows.column("text")),
    }
    return pa.table(columns, schema=DROPPED_SCHEMA)


def _ids_at(chunks: list[str], places: NDArray[Any]) -> pa.Array:
    """Ids of the kept rows of duplicates: `places` has kept_chunk and kept_position."""
    parts, order = [pa.array([], pa.string())], [np.empty(0, dtype=np.int64)]
    for number in np.unique(places["kept_chunk"]).tolist():
        here = np.flatnonzero(places["kept_chunk"] == number)
        column = read_parquet(chunks[number], columns=["id"]).column("id")
        parts += column.take(pa.array(places["kept_position"][here])).chunks
        order.append(here)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))


def _ledger_blocks(step: Step, side: str, used: bool) -> Iterator[pa.Table]:
    chunks, buckets = step.files(f"{side}.chunks").paths, step.files(f"{side}.duplicates").paths
    kept_states = _states(step, side) if used else None
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


def write_ledger(step: Step, path: str, used: bool = True) -> int:
    """Write the ledger of both sides; without `used` only the rows that were not kept."""
    return write_parquet(path, DROPPED_SCHEMA, (block for side in SIDES for block in _ledger_blocks(step, side, used)))


def _dropped(step: Step, outputs: Outputs) -> dict[str, Any]:
    path = outputs.path("dropped.parquet")
    rows = write_ledger(step, path)
    counts: dict[str, dict[str, int]] = {side: {} for side in SIDES}
    table = pq.read_table(path, columns=["side", "reason"]).group_by(["side", "reason"]).aggregate([([], "count_all")])
    for entry in sorted(table.to_pylist(), key=lambda entry: (entry["side"], entry["reason"])):
        counts[entry["side"]][entry["reason"]] = entry["count_all"]
    return {"rows": rows, "reasons": counts}


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `what` (``pairs`` or ``dropped``), `threshold`; execution: `matched`, `pairs`
    (paths); lists: chunks, duplicates and validity of both sides."""
    return {"pairs": _pairs, "dropped": _dropped}[step.params["what"]](step, outputs)
