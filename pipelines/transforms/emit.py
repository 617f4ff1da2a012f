"""Give matched pairs and candidates their ids and texts."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.corpus.cells import string_buffers, strings
from mining.io.parquet import read_parquet, write_parquet
from mining.neighbour_scores import list_scores
from mining.pairs import ForwardCandidates, Rows, candidates_table, pairs_table, reverse_ranks
from mining.schemas import CANDIDATE, CANDIDATES_SCHEMA, PAIRS_SCHEMA
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, ShardFiles, open_array
from pipelines.transforms.search import NEIGHBOUR, as_neighbours
from pipelines.transforms.shard import SHARD_SCHEMA

#: Pairs named at a time; each block reads every shard that it needs once, and holds its texts
#: twice.
_BLOCK = 500_000
#: Bytes of text of one side that a block holds on average: there are fewer pairs in it where texts
#: are long.
_BLOCK_BYTES = 1 << 29
#: Candidates listed at a time, about 100 bytes each with their ids.
_CANDIDATES = 1 << 18
#: Rows of a shard, for blocks of them that hold more than 2 GiB of text.
_WIDE = pa.schema([("id", pa.large_string()), ("text", pa.large_string()), ("occurrences", pa.int64())])


def _wide(table: pa.Table) -> pa.Table:
    return table.cast(_WIDE)


class _Side:
    """The files of one side: its shards, and the lists and means of their rows."""

    def __init__(self, step: Step, side: str) -> None:
        self.shards, means = step.files(f"{side}.shards"), step.files(f"{side}.means")
        self.means = ShardedArray(ShardFiles(means, np.float64).all(), means.firsts, means.total)
        self.lists = []
        if step.params["what"] == "candidates":
            self.lists = ShardFiles(step.files(f"{side}.lists"), NEIGHBOUR, (step.params["k"],)).all()

    def text_bytes(self) -> int:
        """Bytes of all texts, as the shards have them."""
        place = SHARD_SCHEMA.get_field_index("text")
        files = (pq.read_metadata(path) for path in self.shards.paths)
        return sum(
            file.row_group(group).column(place).total_uncompressed_size
            for file in files
            for group in range(file.num_row_groups)
        )

    def take(self, rows: NDArray[np.int64]) -> pa.Table:
        """Ids, texts and occurrences of rows by number, in the order asked for; shards are read one
        after the other."""
        columns = ["id", "text", "occurrences"]
        parts, places = [], []
        for path, (start, stop) in zip(self.shards.paths, itertools.pairwise(self.shards.limits), strict=True):
            here = np.flatnonzero((rows >= start) & (rows < stop))
            if len(here):
                parts.append(_wide(read_parquet(path, columns=columns)).take(pa.array(rows[here] - start)))
                places.append(here)
        if not parts:
            return _wide(read_parquet(self.shards.paths[0], columns=columns).slice(0, 0))
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(places)] = np.arange(len(rows))
        return pa.concat_tables(parts).take(pa.array(back))


class _Ids:
    """The ids of a side by row number, mapped from a nameless scratch file: only the pages in use
    are in memory."""

    def __init__(self, side: _Side, folder: Path) -> None:
        # The maps stay when the file is closed, and the file stays while there are maps.
        with tempfile.TemporaryFile(dir=folder) as text, tempfile.TemporaryFile(dir=folder) as limits:
            end = 0
            limits.write(np.zeros(1, dtype=np.int64).data)
            for path in side.shards.paths:
                for chunk in read_parquet(path, columns=["id"]).column("id").chunks:
                    data, offsets = string_buffers(chunk)
                    text.write(data.data)
                    limits.write((offsets[1:] + end).data)
                    end += len(data)
            for file in (text, limits):
                file.flush()
            self.data = np.asarray(np.memmap(text, np.uint8, "r+", shape=(end,))) if end else np.empty(0, np.uint8)
            self.offsets = np.asarray(np.memmap(limits, np.int64, "r+", shape=(side.shards.total + 1,)))

    def take(self, rows: NDArray[np.int64]) -> pa.Array:
        """Ids (n,) of rows (n,), "" for -1."""
        there = np.maximum(rows, 0)
        starts = self.offsets[there]
        return strings(self.data, starts, np.where(rows < 0, starts, self.offsets[there + 1]))


def _rows(table: pa.Table) -> Rows:
    table = table.combine_chunks()
    columns = [table.column(name) for name in ("id", "text")]
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], pa.large_string()) for column in columns]
    return Rows(arrays[0], arrays[1], table.column("occurrences").to_numpy())


def _matched(step: Step, outputs: Outputs) -> int:
    source, target = _Side(step, "source"), _Side(step, "target")
    pairs = open_array(step.path(step.execution["pairs"]), CANDIDATE, (None,))
    limits = [_BLOCK_BYTES * side.shards.total // max(1, side.text_bytes()) for side in (source, target)]
    size = max(1, min(_BLOCK, *limits))

    def blocks() -> Iterator[pa.Table]:
        with ThreadPoolExecutor(1) as pool:
            for start in range(0, len(pairs), size):
                block = np.array(pairs[start : start + size])
                # Reading and gathering hold no lock of the interpreter, so the sides share two
                # cores.
                waiting = pool.submit(target.take, block["target"])
                ends = _rows(source.take(block["source"])), _rows(waiting.result())
                means = source.means.take(block["source"]), target.means.take(block["target"])
                yield pairs_table(block, *ends, *means)

    return write_parquet(outputs.path("matched.parquet"), PAIRS_SCHEMA, blocks())


def _candidates(step: Step, outputs: Outputs) -> int:
    source, target = _Side(step, "source"), _Side(step, "target")
    path, rows = outputs.path("candidates.parquet"), max(1, _CANDIDATES // step.params["k"])
    ids = {side: _Ids(side, step.folder) for side in (source, target)}

    def blocks() -> Iterator[pa.Table]:
        for own, other, forward in ((source, target, True), (target, source, False)):
            their_lists = ShardedArray([lists["id"] for lists in other.lists], other.shards.firsts, other.shards.total)
            for first, lists in zip(own.shards.firsts, own.lists, strict=True):
                for start in range(0, len(lists), rows):
                    block = _block(step, (own, other), their_lists, lists[start : start + rows], first + start)
                    names = ids[own].take(block.rows), ids[other].take(block.lists.ids.ravel())
                    yield candidates_table(block, *names, forward=forward)

    return write_parquet(path, CANDIDATES_SCHEMA, blocks())


def _block(
    step: Step, sides: tuple[_Side, _Side], their_lists: ShardedArray, table: NDArray[Any], first: int
) -> ForwardCandidates:
    own, other = sides
    lists = as_neighbours(table)
    rows = np.arange(first, first + len(table), dtype=np.int64)
    scores = list_scores(*lists, own.means.take(rows), other.means.take(lists.ids), step.params["margin"], 1).values
    reverse = reverse_ranks(rows, lists.ids, functools.partial(their_lists.take, fill=-1))
    return ForwardCandidates(rows, lists, scores, reverse)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `what` (``matched`` or ``candidates``), `k`, `margin`; execution: `pairs` (path);
    lists: shards, means and, for candidates, neighbour lists of both sides."""
    work = {"matched": _matched, "candidates": _candidates}[step.params["what"]]
    return {"rows": work(step, outputs)}
