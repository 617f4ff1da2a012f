"""The files a user opens: the pairs at or above the threshold, and the ledger of every row that is not used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.matching import CANDIDATE
from mining.pairs import DROPPED_SCHEMA, PAIRS_SCHEMA, previews, read_parquet, write_parquet, write_tsv
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, open_array
from pipelines.stages.shard import duplicates_in, kept_rows

UNMATCHED, BELOW, NO_PIECES, DUPLICATE_TEXT = "unmatched", "below_threshold", "no_pieces", "duplicate"
SIDES = ("source", "target")


def _pairs(step: Step, outputs: Outputs) -> dict[str, Any]:
    limit = step.params["threshold"]
    matched = step.path(step.execution["matched"])

    def blocks() -> Iterator[pa.Table]:
        with pq.ParquetFile(matched) as file:
            for batch in file.iter_batches():
                table = pa.Table.from_batches([batch])
                yield table if limit is None else table.filter(pc.greater_equal(table.column("score"), limit))

    rows = write_parquet(outputs.path("pairs.parquet"), PAIRS_SCHEMA, blocks())
    write_tsv(outputs.path("pairs.tsv"), PAIRS_SCHEMA, blocks())
    return {"pairs": rows}


def _states(step: Step, side: str) -> ShardedArray:
    """For each kept row of a side: "" when it is in a pair, else why it is not."""
    rows, firsts = step.params[side]["rows"], step.params[side]["firsts"]
    valid = np.concatenate([open_array(step.path(p), bool, (None,)) for p in step.execution[side]["valid"]])
    states = np.full(rows, UNMATCHED, dtype=object)
    states[~valid] = NO_PIECES
    pairs = open_array(step.path(step.execution["pairs"]), CANDIDATE, (None,))
    limit = step.params["threshold"]
    extracted = np.ones(len(pairs), dtype=bool) if limit is None else pairs["score"] >= limit
    states[pairs[side][~extracted]] = BELOW
    states[pairs[side][extracted]] = ""
    return ShardedArray(
        [states[start:stop] for start, stop in zip(firsts, [*firsts[1:], rows], strict=True)], firsts, rows
    )


def _chunk_ledger(
    side: str,
    table: pa.Table,
    keep: NDArray[np.bool_],
    duplicates: NDArray[Any],
    kept_ids: list[str],
    states: NDArray[Any],
) -> pa.Table:
    """The unused rows of one chunk: reason of the reader, duplicate, or the state of the kept row."""
    reasons = np.array(table.column("reason").to_pylist(), dtype=object)
    kept = np.full(len(table), None, dtype=object)
    reasons[duplicates["position"]] = DUPLICATE_TEXT
    kept[duplicates["position"]] = kept_ids
    reasons[keep] = states
    unused = pa.array([reason != "" for reason in reasons])
    columns = {
        "side": pa.array([side] * len(table), pa.string()),
        "id": table.column("id"),
        "file": table.column("file"),
        "line": table.column("line"),
        "reason": pa.array(reasons, pa.string()),
        "kept_id": pa.array(kept, pa.string()),
        "text": previews(table.column("text")),
    }
    return pa.table(columns).filter(unused).cast(DROPPED_SCHEMA)


def _ids_at(chunks: list[str], places: NDArray[Any]) -> list[str]:
    """Ids of the kept rows of duplicates: `places` has kept_chunk and kept_position."""
    ids = np.empty(len(places), dtype=object)
    for number in np.unique(places["kept_chunk"]).tolist():
        here = np.flatnonzero(places["kept_chunk"] == number)
        column = read_parquet(chunks[number], columns=["id"]).column("id")
        ids[here] = column.take(pa.array(places["kept_position"][here])).to_pylist()
    return ids.tolist()


def _ledger_blocks(step: Step, side: str, used: bool) -> Iterator[pa.Table]:
    chunks = [step.path(path) for path in step.execution[side]["chunks"]]
    buckets = [step.path(path) for path in step.execution[side]["duplicates"]]
    states = _states(step, side) if used else None
    row = 0
    for number, path in enumerate(chunks):
        table = read_parquet(path)
        keep = kept_rows(table, buckets, number)
        duplicates = duplicates_in(buckets, "chunk", number)
        count = int(keep.sum())
        mine = states.take(np.arange(row, row + count)) if states is not None else np.full(count, "", dtype=object)
        yield _chunk_ledger(side, table, keep, duplicates, _ids_at(chunks, duplicates), mine)
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
    """Params: `what` (``pairs`` or ``dropped``), `threshold`; execution: the files of both sides, `matched`,
    `pairs`."""
    return {"pairs": _pairs, "dropped": _dropped}[step.params["what"]](step, outputs)
