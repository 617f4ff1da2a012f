"""From neighbours to pairs: ``score`` ranks the candidates of one shard by margin, ``match``
chooses among those of all shards, band by band of falling score, and ``emit`` gives matched pairs
and candidates their ids and texts."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.config.mine import Strategy
from mining.corpus.cells import string_buffers, strings
from mining.io.parquet import read_parquet, write_parquet
from mining.matching import best_candidates, match
from mining.neighbour_scores import list_scores
from mining.pairs import ForwardCandidates, Rows, candidates_table, pairs_table, reverse_ranks
from mining.schemas import BACKWARD, CANDIDATE, CANDIDATES_SCHEMA, FORWARD, PAIRS_SCHEMA
from pipelines.arrays import ShardedArray, ShardFiles, open_array, write_blocks
from pipelines.engine import Context
from pipelines.records import NOT_IN_KEY, Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.duplicates import SHARD_SCHEMA, Corpus
from pipelines.transforms.neighbours import NEIGHBOUR, SearchedSide, as_neighbours


@dataclass(frozen=True)
class ScoreInputs:
    """The lists of a shard, their mean cosines, and those of all rows of the other side."""

    lists: Artefact
    own_means: Artefact
    other_means: Listing


@dataclass(frozen=True)
class ScoreParams:
    """The margin, neighbours a list, the side (``source`` or ``target``) of the shard, the number
    of its first row, and its rows."""

    margin: str
    k: int
    side: str
    first: int
    rows: int
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class ScoreReport:
    """The best candidates of the rows, sorted, their number, and how many neighbours have no
    defined margin."""

    best: Artefact
    candidates: int
    undefined: int


@stage("score", "numba")
def score(inputs: ScoreInputs, params: ScoreParams, outputs: Outputs) -> ScoreReport:
    """Score the candidates of one shard and keep the best of each row."""
    rows = params.rows
    lists = as_neighbours(open_array(inputs.lists.path, NEIGHBOUR, (rows, params.k)))
    own = np.array(open_array(inputs.own_means.path, np.float64, (rows,)))
    means = inputs.other_means.read()
    other = ShardedArray(ShardFiles(means, np.float64), means.firsts, means.total).take(lists.ids)
    numbers = np.arange(params.first, params.first + rows, dtype=np.int64)
    direction = FORWARD if params.side == "source" else BACKWARD
    best, undefined = best_candidates(numbers, lists, own, other, params.margin, direction, params.threads)
    return ScoreReport(outputs.save(f"{outputs.name}.npy", best), len(best), undefined)


def plan_score(ctx: Context, side: SearchedSide, other: SearchedSide) -> list[Step[ScoreReport]]:
    """One step a shard."""
    margin, k, means = ctx.config.margin, ctx.config.search.k, other.means(ctx)
    corpus = side.corpus
    inputs = [ScoreInputs(shard.lists, shard.means, means) for shard in side.shards]
    params = (
        ScoreParams(margin, k, corpus.side, first, rows, ctx.threads)
        for first, rows in zip(corpus.firsts, corpus.sizes, strict=True)
    )
    return ctx.numbered(score, corpus.side, zip(inputs, params, strict=True))


def score_margins(ctx: Context, sides: Sides[SearchedSide]) -> Sides[list[ScoreReport]]:
    """Score the candidates of all shards of both sides."""
    other = Sides(sides.target, sides.source)
    return ctx.run_sides(sides.with_other(other), lambda item: plan_score(ctx, *item))


@dataclass(frozen=True)
class MatchParams:
    """The strategy, and the rows of both sides."""

    strategy: Strategy
    rows: Sides[int]


@dataclass(frozen=True)
class MatchReport:
    """The chosen pairs by falling score, and their number."""

    pairs: Artefact
    count: int


def _blocks(body: BinaryIO) -> Iterator[NDArray[np.void]]:
    while data := body.read(CANDIDATE.itemsize * 65_536):
        yield np.frombuffer(data, CANDIDATE)


@stage("match", "numba")
def match_candidates(inputs: Sides[Listing], params: MatchParams, outputs: Outputs) -> MatchReport:
    """Choose pairs among the best candidates of all shards."""
    best = [open_array(path, CANDIDATE, (None,)) for side in inputs for path in side.read().paths]
    path = outputs.path("pairs.npy")
    count = 0
    # The number of pairs is known at the end: they go to a nameless scratch file first, and then
    # behind the header.
    with tempfile.TemporaryFile(dir=outputs.folder) as body:
        for block in match(best, params.strategy, *params.rows):
            body.write(block.tobytes())
            count += len(block)
        body.seek(0)
        with open(path, "wb") as out:
            write_blocks(out, CANDIDATE, (count,), _blocks(body))
    return MatchReport(outputs.artefact("pairs.npy"), count)


def match_pairs(ctx: Context, corpora: Sides[Corpus], scores: Sides[list[ScoreReport]]) -> MatchReport:
    """Choose the pairs: one step, since the choice is global."""
    inputs = scores.map(lambda reports: ctx.listing(report.best for report in reports))
    params = MatchParams(ctx.config.strategy, corpora.map(lambda corpus: corpus.rows))
    (report,) = ctx.run([ctx.step(match_candidates, "match", inputs, params)])
    return report


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


@dataclass(frozen=True)
class SideLists:
    """The shards of a side, and the mean cosines of their rows."""

    shards: Listing
    means: Listing


@dataclass(frozen=True)
class MatchedInputs:
    """The matched pairs, and both sides."""

    pairs: Artefact
    sides: Sides[SideLists]


@dataclass(frozen=True)
class CandidatesInputs:
    """Both sides, and their neighbour lists."""

    sides: Sides[SideLists]
    lists: Sides[Listing]


@dataclass(frozen=True)
class EmitParams:
    """Neighbours a list, and the margin."""

    k: int
    margin: str


@dataclass(frozen=True)
class EmitReport:
    """A table of pairs, and its rows."""

    table: Artefact
    rows: int


class _Side:
    """The files of one side: its shards, and the means of their rows."""

    def __init__(self, files: SideLists) -> None:
        self.shards, means = files.shards.read(), files.means.read()
        self.means = ShardedArray(ShardFiles(means, np.float64).all(), means.firsts, means.total)

    def text_bytes(self) -> int:
        """Bytes of all texts, as the shards have them."""
        column = SHARD_SCHEMA.get_field_index("text")
        files = (pq.read_metadata(path) for path in self.shards.paths)
        return sum(
            file.row_group(group).column(column).total_uncompressed_size
            for file in files
            for group in range(file.num_row_groups)
        )

    def take(self, rows: NDArray[np.int64]) -> pa.Table:
        """Ids, texts and occurrences of rows by number, in the order asked for; shards are read one
        after the other."""
        columns = ["id", "text", "occurrences"]
        parts, order = [], []
        for path, (start, stop) in zip(self.shards.paths, itertools.pairwise(self.shards.limits), strict=True):
            here = np.flatnonzero((rows >= start) & (rows < stop))
            if len(here):
                parts.append(_wide(read_parquet(path, columns=columns)).take(pa.array(rows[here] - start)))
                order.append(here)
        if not parts:
            return _wide(read_parquet(self.shards.paths[0], columns=columns).slice(0, 0))
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
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


@stage("emit", "numba", "pyarrow")
def emit_matched(inputs: MatchedInputs, params: EmitParams, outputs: Outputs) -> EmitReport:
    """Write the matched pairs with their ids and texts."""
    source, target = inputs.sides.map(_Side)
    pairs = open_array(inputs.pairs.path, CANDIDATE, (None,))
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

    rows = write_parquet(outputs.path("matched.parquet"), PAIRS_SCHEMA, blocks())
    return EmitReport(outputs.artefact("matched.parquet"), rows)


class _Direction:
    """The candidates of the rows of one side, as far as they are not those of the other side
    again."""

    def __init__(self, own: _Side, other: _Side, own_lists: Listing, other_lists: Listing, params: EmitParams) -> None:
        self.own, self.other, self.params = own, other, params
        self.lists, theirs = (
            ShardFiles(lists.read(), NEIGHBOUR, (params.k,)).all() for lists in (own_lists, other_lists)
        )
        self.their_ids = ShardedArray([lists["id"] for lists in theirs], other.shards.firsts, other.shards.total)

    def blocks(self) -> Iterator[ForwardCandidates]:
        """The candidates, so many lists at a time."""
        size = max(1, _CANDIDATES // self.params.k)
        for first, lists in zip(self.own.shards.firsts, self.lists, strict=True):
            for start in range(0, len(lists), size):
                yield self._block(lists[start : start + size], first + start)

    def _block(self, table: NDArray[np.void], first: int) -> ForwardCandidates:
        lists = as_neighbours(table)
        rows = np.arange(first, first + len(table), dtype=np.int64)
        means = self.own.means.take(rows), self.other.means.take(lists.ids)
        scores = list_scores(*lists, *means, self.params.margin, 1).values
        reverse = reverse_ranks(rows, lists.ids, functools.partial(self.their_ids.take, fill=-1))
        return ForwardCandidates(rows, lists, scores, reverse)


@stage("emit", "numba", "pyarrow")
def emit_candidates(inputs: CandidatesInputs, params: EmitParams, outputs: Outputs) -> EmitReport:
    """Write all candidates of both directions with their ids."""
    source, target = inputs.sides.map(_Side)
    path, lists = outputs.path("candidates.parquet"), inputs.lists
    source_ids, target_ids = _Ids(source, outputs.folder), _Ids(target, outputs.folder)

    def blocks() -> Iterator[pa.Table]:
        for block in _Direction(source, target, lists.source, lists.target, params).blocks():
            names = source_ids.take(block.rows), target_ids.take(block.lists.ids.ravel())
            yield candidates_table(block, *names, forward=True)
        for block in _Direction(target, source, lists.target, lists.source, params).blocks():
            names = target_ids.take(block.rows), source_ids.take(block.lists.ids.ravel())
            yield candidates_table(block, *names, forward=False)

    rows = write_parquet(path, CANDIDATES_SCHEMA, blocks())
    return EmitReport(outputs.artefact("candidates.parquet"), rows)


@dataclass(frozen=True)
class Emitted:
    """The matched pairs, and the candidates if they are wanted."""

    matched: EmitReport
    candidates: EmitReport | None


def emit_pairs(ctx: Context, corpora: Sides[Corpus], searched: Sides[SearchedSide], matched: MatchReport) -> Emitted:
    """Write all matched pairs with their texts, and the candidates if they are wanted."""
    config = ctx.config

    def files(item: tuple[Corpus, SearchedSide]) -> SideLists:
        corpus, side = item
        return SideLists(ctx.listing((shard.table for shard in corpus.shards), corpus.sizes), side.means(ctx))

    sides = corpora.with_other(searched).map(files)
    params = EmitParams(config.search.k, config.margin)
    steps = [ctx.step(emit_matched, "matched", MatchedInputs(matched.pairs, sides), params)]
    if config.candidates or config.gold:
        inputs = CandidatesInputs(sides, searched.map(lambda side: side.lists(ctx)))
        steps.append(ctx.step(emit_candidates, "candidates", inputs, params, "."))
    first, *more = ctx.run(steps)
    return Emitted(first, more[0] if more else None)
