"""Give matched pairs and candidates their ids and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.emit import ForwardCandidates, Rows, candidates_table, pairs_table, reverse_ranks
from mining.matching import CANDIDATE, candidate_scores
from mining.pairs import CANDIDATES_SCHEMA, PAIRS_SCHEMA, read_parquet, write_parquet
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, open_array
from pipelines.stages.search import NEIGHBOUR, as_neighbours

#: Pairs named at a time; each block reads every shard that it needs once.
_BLOCK = 250_000
#: Rows whose candidates are listed at a time.
_ROWS = 16_384


class _Side:
    """The files of one side: shards in order with their first row numbers, and for candidates their lists and means."""

    def __init__(self, step: Step, side: str) -> None:
        facts = step.params[side]
        self.rows: int = facts["rows"]
        self.firsts: list[int] = facts["firsts"]
        self.limits = [*self.firsts, self.rows]
        paths = {suffix: [step.path(p) for p in step.execution[side][suffix]] for suffix in step.execution[side]}
        self.shards = paths["shards"]
        sizes = [stop - start for start, stop in zip(self.limits[:-1], self.limits[1:], strict=True)]
        means = [open_array(p, np.float64, (n,)) for p, n in zip(paths["means"], sizes, strict=True)]
        self.means = ShardedArray(means, self.firsts, self.rows)
        self.lists = [
            open_array(p, NEIGHBOUR, (n, step.params["k"])) for p, n in zip(paths.get("lists", []), sizes, strict=False)
        ]

    def take(self, rows: NDArray[np.int64], columns: tuple[str, ...] = ("id", "text", "occurrences")) -> pa.Table:
        """Rows by number, in the order asked for; shards are read one after the other."""
        parts, places = [], []
        for path, start, stop in zip(self.shards, self.limits[:-1], self.limits[1:], strict=True):
            here = np.flatnonzero((rows >= start) & (rows < stop))
            if len(here):
                parts.append(read_parquet(path, columns=list(columns)).take(pa.array(rows[here] - start)))
                places.append(here)
        if not parts:
            return read_parquet(self.shards[0], columns=list(columns)).slice(0, 0)
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(places)] = np.arange(len(rows))
        return pa.concat_tables(parts).take(pa.array(back))


def _rows(table: pa.Table) -> Rows:
    table = table.combine_chunks()
    columns = [table.column(name) for name in ("id", "text")]
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], pa.string()) for column in columns]
    return Rows(arrays[0], arrays[1], table.column("occurrences").to_numpy())


def _matched(step: Step, outputs: Outputs) -> int:
    source, target = _Side(step, "source"), _Side(step, "target")
    pairs = open_array(step.path(step.execution["pairs"]), CANDIDATE, (None,))

    def blocks() -> Iterator[pa.Table]:
        for start in range(0, len(pairs), _BLOCK):
            block = np.array(pairs[start : start + _BLOCK])
            ends = _rows(source.take(block["source"])), _rows(target.take(block["target"]))
            means = source.means.take(block["source"]), target.means.take(block["target"])
            yield pairs_table(block, *ends, *means)

    return write_parquet(outputs.path("matched.parquet"), PAIRS_SCHEMA, blocks())


def _candidates(step: Step, outputs: Outputs) -> int:
    source, target = _Side(step, "source"), _Side(step, "target")

    def blocks() -> Iterator[pa.Table]:
        for own, other, forward in ((source, target, True), (target, source, False)):
            their_lists = ShardedArray([lists["id"] for lists in other.lists], other.firsts, other.rows)
            for first, lists in zip(own.firsts, own.lists, strict=True):
                for start in range(0, len(lists), _ROWS):
                    yield _candidate_block(
                        step, (own, other), their_lists, lists[start : start + _ROWS], first + start, forward
                    )

    return write_parquet(outputs.path("candidates.parquet"), CANDIDATES_SCHEMA, blocks())


def _candidate_block(
    step: Step, sides: tuple[_Side, _Side], their_lists: ShardedArray, table: NDArray[Any], first: int, forward: bool
) -> pa.Table:
    own, other = sides
    lists = as_neighbours(table)
    rows = np.arange(first, first + len(table), dtype=np.int64)
    scores = candidate_scores(*lists, own.means.take(rows), other.means.take(lists.ids), step.params["margin"])
    reverse = reverse_ranks(rows, their_lists.take(lists.ids, fill=-1))
    neighbours = lists.ids.ravel()
    named = other.take(np.where(neighbours >= 0, neighbours, 0), ("id",)).column("id").combine_chunks()
    ids = own.take(rows, ("id",)).column("id").combine_chunks()
    return candidates_table(ForwardCandidates(rows, lists, scores, reverse), ids, named, forward=forward)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `what` (``matched`` or ``candidates``), both sides' `rows` and `firsts`, `k`, `margin`; execution: the
    files."""
    work = {"matched": _matched, "candidates": _candidates}[step.params["what"]]
    return {"rows": work(step, outputs)}
