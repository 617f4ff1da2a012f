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
from mining.search.methods import METHODS, MethodSettings, Runtime
from mining.search.planner import Choice, choose
from pipelines.context import Context
from pipelines.records import NOT_IN_KEY, Sides
from pipelines.steps import Outputs, stage
from pipelines.transforms.clusters import search_clusters
from pipelines.transforms.encode import EncodedSide
from pipelines.transforms.indexes import search_through_indexes
from pipelines.transforms.neighbours import (
    MergeInputs,
    PairReport,
    SearchedSide,
    ShardVectors,
    merge_sides,
    parts_of_pairs,
    save_pair,
)


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
