"""Neighbour lists in files, the vectors that they come from, and ``merge``: the partial lists of
one shard together, and the mean cosine of each list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mining.neighbour_scores import neighbour_means
from mining.search.cluster_join import add_lists, evenly_spaced
from mining.search.topk import Neighbours, merge, no_neighbours
from mining.search.vectors import STORED, VectorShard, from_stored, vector_shard
from pipelines.arrays import ShardedArray, ShardFiles, open_array
from pipelines.engine import Context
from pipelines.records import Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.duplicates import Corpus
from pipelines.transforms.encode import EncodedSide, EncodeReport, VectorLists

#: Neighbour lists on disk: (rows, k), id -1 and cosine -inf where a list ends early.
NEIGHBOUR = np.dtype([("id", "<i8"), ("cosine", "<f4")])


def as_table(lists: Neighbours) -> NDArray[np.void]:
    """Lists as one structured array."""
    table = np.empty(lists.ids.shape, dtype=NEIGHBOUR)
    table["id"], table["cosine"] = lists.ids, lists.cosines
    return table


def as_neighbours(table: NDArray[np.void]) -> Neighbours:
    """Lists from a structured array."""
    return Neighbours(np.ascontiguousarray(table["id"]), np.ascontiguousarray(table["cosine"]))


@dataclass(frozen=True)
class ShardVectors:
    """The vectors of a shard, and which of them are valid."""

    vectors: Artefact
    valid: Artefact

    @classmethod
    def of(cls, shard: EncodeReport) -> ShardVectors:
        """The files of an encoded shard."""
        return cls(shard.vectors, shard.valid)

    def read(self, first: int, dim: int) -> VectorShard:
        """The searchable part of the shard, which begins at row number `first`."""
        valid = np.array(open_array(self.valid.path, bool, (None,)))
        return vector_shard(first, valid, open_array(self.vectors.path, STORED, (len(valid), dim)))


def sampled(files: VectorLists, dim: int, count: int) -> NDArray[np.float32]:
    """At most `count` unit rows, evenly spaced over the valid rows of a side: chosen by row number,
    so that shards do not change them."""
    vectors = files.vectors.read()
    usable = np.flatnonzero(np.concatenate(ShardFiles(files.valid.read(), bool).all()))
    chosen = usable[evenly_spaced(len(usable), count)]
    stored = ShardedArray(ShardFiles(vectors, STORED, (dim,)), vectors.firsts, vectors.total)
    return from_stored(stored.take(chosen))


@dataclass(frozen=True)
class OfShard:
    """What was trained on a side, and a shard of it."""

    trained: Artefact
    shard: ShardVectors


@dataclass(frozen=True)
class PairReport:
    """The lists of a source shard (`forward`) and a target shard (`backward`) against each
    other."""

    forward: Artefact
    backward: Artefact
    pairs_compared: int


def save_pair(outputs: Outputs, shards: Sides[VectorShard], lists: tuple[Neighbours, Neighbours]) -> PairReport:
    """Write the lists of both directions over all rows of two shards."""
    return PairReport(
        outputs.save(f"{outputs.name}.forward.npy", as_table(lists[0])),
        outputs.save(f"{outputs.name}.backward.npy", as_table(lists[1])),
        len(shards.source.vectors) * len(shards.target.vectors),
    )


@dataclass(frozen=True)
class MergeInputs:
    """Partial lists of all rows of the shard, or of those rows of its side whose `numbers` stand in
    a file beside them."""

    lists: Listing
    numbers: Listing | None = None


@dataclass(frozen=True)
class MergeParams:
    """Neighbours a list, rows of the shard, and the number of its first row."""

    k: int
    rows: int
    first: int


@dataclass(frozen=True)
class MergeReport:
    """The lists (rows, k), the mean cosine of each (rows,), the sum of these, and how many lists
    are full."""

    lists: Artefact
    means: Artefact
    mean_sum: float
    complete_lists: int


def _merged(inputs: MergeInputs, params: MergeParams) -> Neighbours:
    rows, k, first = params.rows, params.k, params.first
    lists = no_neighbours(rows, k)
    if inputs.numbers is None:
        for path in inputs.lists.read().paths:
            lists = merge(lists, as_neighbours(open_array(path, NEIGHBOUR, (rows, k))), k)
        return lists
    for path, beside in zip(inputs.lists.read().paths, inputs.numbers.read().paths, strict=True):
        numbers = open_array(beside, np.int64, (None,))
        start, stop = np.searchsorted(numbers, (first, first + rows))
        part = open_array(path, NEIGHBOUR, (len(numbers), k))[start:stop]
        add_lists(lists, numbers[start:stop] - first, as_neighbours(part), k)
    return lists


@stage("merge", "numba")
def merge_lists(inputs: MergeInputs, params: MergeParams, outputs: Outputs) -> MergeReport:
    """Merge the partial lists of one shard."""
    lists = _merged(inputs, params)
    means = neighbour_means(lists.cosines)
    return MergeReport(
        lists=outputs.save(f"{outputs.name}.lists.npy", as_table(lists)),
        means=outputs.save(f"{outputs.name}.means.npy", means),
        mean_sum=float(np.sum(means)),
        complete_lists=int((lists.ids[:, -1] >= 0).sum()) if params.rows else 0,
    )


def parts_of_pairs(ctx: Context, sides: Sides[EncodedSide], found: list[PairReport]) -> Sides[list[MergeInputs]]:
    """What is to be merged for each shard; `found` is by source shard, then by target shard."""
    width = len(sides.target.shards)
    forward = [found[start : start + width] for start in range(0, len(found), width)]
    backward = [found[number::width] for number in range(width)]
    return Sides(
        [MergeInputs(ctx.listing(pair.forward for pair in pairs)) for pairs in forward],
        [MergeInputs(ctx.listing(pair.backward for pair in pairs)) for pairs in backward],
    )


@dataclass(frozen=True)
class SearchedSide:
    """One side with the neighbours of the rows of its shards."""

    corpus: Corpus
    shards: list[MergeReport]

    def means(self, ctx: Context) -> Listing:
        """The mean cosines of all rows."""
        return ctx.listing((shard.means for shard in self.shards), self.corpus.sizes)

    def lists(self, ctx: Context) -> Listing:
        """The neighbour lists of all rows."""
        return ctx.listing((shard.lists for shard in self.shards), self.corpus.sizes)


def plan_merge(ctx: Context, corpus: Corpus, parts: list[MergeInputs]) -> list[Step[MergeReport]]:
    """One step a shard, whose partial lists are in `parts`."""
    shards = zip(corpus.sizes, corpus.firsts, strict=True)
    params = [MergeParams(ctx.config.search.k, rows, first) for rows, first in shards]
    return ctx.numbered(merge_lists, corpus.side, zip(parts, params, strict=True))


def merge_sides(ctx: Context, corpora: Sides[Corpus], parts: Sides[list[MergeInputs]]) -> Sides[SearchedSide]:
    """Merge the partial lists of all shards."""
    reports = ctx.run_sides(corpora.with_other(parts), lambda item: plan_merge(ctx, *item))
    return corpora.with_other(reports).map(lambda item: SearchedSide(*item))
