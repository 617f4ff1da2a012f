"""From neighbours to pairs: ``score`` ranks the candidates of one shard by margin, ``match``
chooses among those of all shards, band by band of falling score."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mining.config.mine import Strategy
from mining.matching import best_candidates, match
from mining.schemas import BACKWARD, CANDIDATE, FORWARD
from pipelines.arrays import ShardedArray, ShardFiles, open_array, write_blocks
from pipelines.context import Context
from pipelines.records import NOT_IN_KEY, Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.duplicates import Corpus
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
    name, shards = side.corpus.side, zip(side.shards, side.corpus.firsts, side.corpus.sizes, strict=True)
    return [
        ctx.step(
            score,
            f"{name}-{number:05d}",
            ScoreInputs(shard.lists, shard.means, means),
            ScoreParams(margin, k, name, first, rows, ctx.threads),
        )
        for number, (shard, first, rows) in enumerate(shards)
    ]


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
