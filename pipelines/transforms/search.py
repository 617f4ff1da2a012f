"""The search for the nearest neighbours of both sides.

The plan of the search method says which steps it takes: ``pairs`` searches every source shard and
every target shard against each other, ``indexes`` does so through a FAISS index of each, and
``clusters`` joins groups of clusters. Each gives partial lists, which are merged shard by shard.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from mining.devices import torch_threads
from mining.search.faiss_index import add_rows, faiss_threads, open_index, save_index, train_index
from mining.search.methods import METHODS, MethodSettings, Runtime
from mining.search.methods.faiss import FaissSettings, search_indexes
from mining.search.planner import Choice, choose
from pipelines.engine import Context
from pipelines.records import NOT_IN_KEY, Artefact, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.clusters import search_clusters
from pipelines.transforms.encode import EncodedSide, VectorLists
from pipelines.transforms.neighbours import (
    MergeInputs,
    OfShard,
    PairReport,
    SearchedSide,
    ShardVectors,
    merge_sides,
    parts_of_pairs,
    sampled,
    save_pair,
)


@dataclass(frozen=True)
class TrainIndexParams:
    """The factory string, rows to train on, and the length of a vector."""

    index: str
    sample: int
    dim: int


@dataclass(frozen=True)
class IndexReport:
    """An index, and the rows that it has been trained on or holds."""

    index: Artefact
    rows: int


@stage("train_index", "faiss")
def train_side(inputs: VectorLists, params: TrainIndexParams, outputs: Outputs) -> IndexReport:
    """Train an empty index on a sample of one side, which shards do not change."""
    sample = sampled(inputs, params.dim, params.sample)
    name = f"{outputs.name}.faiss"
    save_index(train_index(params.index, sample), outputs.path(name))
    return IndexReport(outputs.artefact(name), len(sample))


@stage("index", "faiss")
def index_shard(inputs: OfShard, dim: int, outputs: Outputs) -> IndexReport:
    """Add the vectors of one shard, of length `dim`, to a copy of its side's trained index."""
    vectors = inputs.shard.read(0, dim).vectors
    index = open_index(inputs.trained.path, dim, rows=0)
    add_rows(index, vectors)
    name = f"{outputs.name}.faiss"
    save_index(index, outputs.path(name))
    return IndexReport(outputs.artefact(name), len(vectors))


@dataclass(frozen=True)
class IndexSearchInputs:
    """A source and a target shard, and their indexes."""

    shards: Sides[ShardVectors]
    indexes: Sides[Artefact]


@dataclass(frozen=True)
class IndexSearchParams:
    """Settings of the search, neighbours a list, length of a vector, and the number of the first
    row of either shard."""

    settings: FaissSettings
    k: int
    dim: int
    firsts: Sides[int]
    threads: int = field(metadata=NOT_IN_KEY)


@stage("search", "faiss", "numba", "torch", accelerated=True)
def search_shards(inputs: IndexSearchInputs, params: IndexSearchParams, outputs: Outputs) -> PairReport:
    """Search a source and a target shard through their indexes."""
    shards = inputs.shards.with_other(params.firsts).map(lambda item: item[0].read(item[1], params.dim))
    files = inputs.indexes.with_other(shards)
    indexes = files.map(lambda item: open_index(item[0].path, params.dim, rows=len(item[1].vectors)))
    with torch_threads(params.threads), faiss_threads(params.threads):
        both = (shards.source, shards.target)
        found = search_indexes(both, [indexes.source, indexes.target], params.k, params.settings)
    return save_pair(outputs, shards, found)


def _index_sides(ctx: Context, sides: Sides[EncodedSide], settings: FaissSettings) -> Sides[list[IndexReport]]:
    dim = sides.source.dim
    params = TrainIndexParams(settings.index, settings.training_rows, dim)

    def train(side: EncodedSide) -> list[Step[IndexReport]]:
        return [ctx.step(train_side, side.corpus.side, side.lists(ctx), params)]

    def fill(item: tuple[EncodedSide, list[IndexReport]]) -> list[Step[IndexReport]]:
        side, (trained,) = item
        work = ((OfShard(trained.index, ShardVectors.of(shard)), dim) for shard in side.shards)
        return ctx.numbered(index_shard, side.corpus.side, work)

    return ctx.run_sides(sides.with_other(ctx.run_sides(sides, train)), fill)


def search_through_indexes(ctx: Context, sides: Sides[EncodedSide], method: str) -> Sides[list[MergeInputs]]:
    """Search all pairs of shards through indexes: one step each."""
    given: FaissSettings = ctx.config.search.of(method)
    indexes = _index_sides(ctx, sides, given)
    # What an index is made by is in the keys of its own steps.
    settings = FaissSettings(parameters=given.search_parameters, refine_factor=given.refine_factor)

    def shards(item: tuple[EncodedSide, list[IndexReport]]) -> list[tuple[int, ShardVectors, Artefact, int]]:
        side, found = item
        numbered = enumerate(zip(side.shards, found, side.corpus.firsts, strict=True))
        return [(number, ShardVectors.of(shard), report.index, first) for number, (shard, report, first) in numbered]

    steps = [
        ctx.step(
            search_shards,
            f"{source[0]:05d}-{target[0]:05d}",
            IndexSearchInputs(Sides(source[1], target[1]), Sides(source[2], target[2])),
            IndexSearchParams(
                settings, ctx.config.search.k, sides.source.dim, Sides(source[3], target[3]), ctx.threads
            ),
        )
        for source, target in itertools.product(*sides.with_other(indexes).map(shards))
    ]
    return parts_of_pairs(ctx, sides, ctx.run(steps))


@dataclass(frozen=True)
class SearchParams:
    """The method and its settings, neighbours a list, length of a vector, and the number of the
    first row of either shard."""

    method: str
    settings: MethodSettings
    k: int
    dim: int
    firsts: Sides[int]
    threads: int = field(metadata=NOT_IN_KEY)


@stage("search", "numba", "torch", accelerated=True)
def search(inputs: Sides[ShardVectors], params: SearchParams, outputs: Outputs) -> PairReport:
    """Search a source and a target shard against each other."""
    shards = inputs.with_other(params.firsts).map(lambda item: item[0].read(item[1], params.dim))
    runtime = Runtime(params.threads, outputs.progress)
    with torch_threads(params.threads):
        found = METHODS[params.method].search(shards.source, shards.target, params.k, params.settings, runtime)
    return save_pair(outputs, shards, found)


def search_pairs(ctx: Context, sides: Sides[EncodedSide], method: str) -> Sides[list[MergeInputs]]:
    """Search all pairs of shards: one step each."""
    settings, k, dim = ctx.config.search.of(method), ctx.config.search.k, sides.source.dim
    shards = sides.map(lambda side: list(enumerate(zip(side.shards, side.corpus.firsts, strict=True))))
    steps = [
        ctx.step(
            search,
            f"{s:05d}-{t:05d}",
            Sides(ShardVectors.of(source), ShardVectors.of(target)),
            SearchParams(method, settings, k, dim, Sides(first, other), ctx.threads),
            libraries=METHODS[method].libraries,
        )
        for (s, (source, first)), (t, (target, other)) in itertools.product(*shards)
    ]
    return parts_of_pairs(ctx, sides, ctx.run(steps))


#: What each plan of a search method does: from both sides, and the method's name, to the partial
#: lists of each shard.
PLANS: dict[str, Callable[[Context, Sides[EncodedSide], str], Sides[list[MergeInputs]]]] = {
    "pairs": search_pairs,
    "indexes": search_through_indexes,
    "clusters": search_clusters,
}


def search_neighbours(ctx: Context, sides: Sides[EncodedSide]) -> tuple[Choice, Sides[SearchedSide]]:
    """Choose how to search, and search."""
    rows = sides.map(lambda side: side.valid_rows)
    choice = choose(ctx.config.search, rows.source, rows.target, sides.source.dim, ctx.threads)
    ctx.engine.progress.say(choice.line())
    parts = PLANS[METHODS[choice.method].plan](ctx, sides, choice.method)
    return choice, merge_sides(ctx, sides.map(lambda side: side.corpus), parts)
