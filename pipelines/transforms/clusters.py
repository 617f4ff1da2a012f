"""Search by clusters: they are trained on a sample of both sides, every row is assigned to its
nearest ones, and the rows that share a cluster are compared, group by group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.devices import PARSING, torch_threads
from mining.search.cluster_join import Division, Members, assign, divide, join_group, partition, train
from mining.search.clusters import Clusters
from mining.search.topk import Neighbours
from mining.search.vectors import STORED, from_stored
from pipelines.arrays import concatenated, open_array, write_blocks
from pipelines.engine import Context
from pipelines.records import NOT_IN_KEY, Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.encode import EncodedSide, VectorLists
from pipelines.transforms.neighbours import MergeInputs, OfShard, ShardVectors, as_table, sampled

_BLOCK = 16_384


@dataclass(frozen=True)
class TrainParams:
    """How the sides are divided, and the length of a vector."""

    division: Division
    dim: int
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class TrainReport:
    """The clusters, and the number of their groups."""

    trained: Artefact
    clusters: int
    groups: int


@stage("clusters", "numba", "torch")
def train_clusters(inputs: Sides[VectorLists], params: TrainParams, outputs: Outputs) -> TrainReport:
    """Train the clusters of both sides on samples, which shards do not change."""
    with torch_threads(params.threads):
        samples = inputs.map(lambda files: sampled(files, params.dim, params.division.sample))
        trained = train(samples.source, samples.target, params.division)
    with open(outputs.path("clusters.npz"), "wb") as out:
        np.savez(out, **trained._asdict())
    return TrainReport(outputs.artefact("clusters.npz"), len(trained.centroids), int(trained.groups.max()) + 1)


def open_clusters(path: str) -> Clusters:
    """Clusters from the file of this stage."""
    with PARSING, np.load(path, allow_pickle=False) as arrays:
        return Clusters(*(np.require(arrays[name], requirements=["C", "W"]) for name in Clusters._fields))


@dataclass(frozen=True)
class AssignParams:
    """The side (0 or 1), the number of the first row, clusters a row, and the length of a
    vector."""

    side: int
    first: int
    nprobe: int
    dim: int
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class AssignReport:
    """In order of the groups: row numbers, clusters (-1 for those of other groups), stored vectors,
    and where each group begins. A row is in each group that has one of its clusters."""

    rows: Artefact
    clusters: Artefact
    vectors: Artefact
    limits: Artefact
    assigned: int
    written: int


@stage("assign", "numba", "torch")
def assign_rows(inputs: OfShard, params: AssignParams, outputs: Outputs) -> AssignReport:
    """Assign the rows of one shard to their nearest clusters, and write their vectors group by
    group."""
    trained = open_clusters(inputs.trained.path)
    with torch_threads(params.threads):
        part = inputs.shard.read(params.first, params.dim)
        clusters = assign(part.vectors, trained, params.side, params.nprobe)
    numbers = part.rows
    del part
    dealt = partition(clusters, trained.groups)
    rows = numbers[dealt.rows]
    stored = open_array(inputs.shard.vectors.path, STORED, (None, params.dim))
    wanted = rows - params.first
    name = f"{outputs.name}.vectors.npy"
    with open(outputs.path(name), "wb") as out:
        blocks = (stored[wanted[start : start + _BLOCK]] for start in range(0, len(wanted), _BLOCK))
        write_blocks(out, STORED, (len(wanted), params.dim), blocks)
    return AssignReport(
        rows=outputs.save(f"{outputs.name}.rows.npy", rows),
        clusters=outputs.save(f"{outputs.name}.clusters.npy", dealt.clusters),
        vectors=outputs.artefact(name),
        limits=outputs.save(f"{outputs.name}.limits.npy", dealt.limits),
        assigned=len(clusters),
        written=len(rows),
    )


@dataclass(frozen=True)
class MemberLists:
    """What was written for all shards of a side: see `AssignReport`."""

    rows: Listing
    clusters: Listing
    vectors: Listing
    limits: Listing

    def read(self, params: JoinParams) -> Members:
        """The rows of one group."""
        limits = [
            tuple(open_array(path, np.int64, (None,))[params.group : params.group + 2].tolist())
            for path in self.limits.read().paths
        ]

        def joined(files: Listing, dtype: np.dtype | type, *row: int) -> NDArray[Any]:
            return concatenated(files.read().paths, dtype, row, limits)

        vectors = from_stored(joined(self.vectors, STORED, params.dim))
        return Members(joined(self.rows, np.int64), vectors, joined(self.clusters, np.int32, params.nprobe))


@dataclass(frozen=True)
class JoinParams:
    """The group, neighbours a list, length of a vector, clusters a row, and the most members of a
    cluster that are compared at a time."""

    group: int
    k: int
    dim: int
    nprobe: int
    largest: int
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class GroupLists:
    """Neighbour lists of some rows of a side, and the numbers of these rows."""

    lists: Artefact
    numbers: Artefact


@dataclass(frozen=True)
class JoinReport:
    """The lists of a group, in both directions."""

    forward: GroupLists
    backward: GroupLists


@stage("join", "numba", "torch")
def join(inputs: Sides[MemberLists], params: JoinParams, outputs: Outputs) -> JoinReport:
    """Search the rows that share a cluster of one group, in both directions."""
    with torch_threads(params.threads):
        source, target = inputs.map(lambda files: files.read(params))
        forward, backward = join_group(source, target, params.k, params.largest)

    def save(name: str, lists: Neighbours, members: Members) -> GroupLists:
        return GroupLists(
            outputs.save(f"{outputs.name}.{name}.npy", as_table(lists)),
            outputs.save(f"{outputs.name}.{name}.rows.npy", members.rows),
        )

    return JoinReport(save("forward", forward, source), save("backward", backward, target))


def plan_assign(
    ctx: Context, number: int, side: EncodedSide, trained: TrainReport, nprobe: int
) -> list[Step[AssignReport]]:
    """One step a shard."""
    inputs = [OfShard(trained.trained, ShardVectors.of(shard)) for shard in side.shards]
    params = [AssignParams(number, first, nprobe, side.dim, ctx.threads) for first in side.corpus.firsts]
    return ctx.numbered(assign_rows, side.corpus.side, zip(inputs, params, strict=True))


def _member_lists(ctx: Context, reports: list[AssignReport]) -> MemberLists:
    return MemberLists(
        rows=ctx.listing(report.rows for report in reports),
        clusters=ctx.listing(report.clusters for report in reports),
        vectors=ctx.listing(report.vectors for report in reports),
        limits=ctx.listing(report.limits for report in reports),
    )


def _merge_inputs(ctx: Context, corpus_shards: int, groups: list[GroupLists]) -> list[MergeInputs]:
    """Every shard takes its rows from the lists of all groups."""
    lists = ctx.listing(group.lists for group in groups)
    return corpus_shards * [MergeInputs(lists, ctx.listing(group.numbers for group in groups))]


def search_clusters(ctx: Context, sides: Sides[EncodedSide], method: str) -> Sides[list[MergeInputs]]:
    """Train clusters, assign all shards to them, and join group by group."""
    settings, dim = ctx.config.search, sides.source.dim
    rows = sides.map(lambda side: side.valid_rows)
    own = settings.of(method)
    division = divide(rows.source, rows.target, own.nlist, own.nprobe, settings.k)
    files = sides.map(lambda side: side.lists(ctx))
    (trained,) = ctx.run([ctx.step(train_clusters, "clusters", files, TrainParams(division, dim, ctx.threads))])
    assigned = ctx.run_sides(
        Sides((0, sides.source), (1, sides.target)),
        lambda item: plan_assign(ctx, *item, trained, division.nprobe),
    )
    members = assigned.map(lambda reports: _member_lists(ctx, reports))
    facts = settings.k, dim, division.nprobe, division.largest, ctx.threads
    groups = range(trained.groups)
    joined = ctx.run([ctx.step(join, f"{group:05d}", members, JoinParams(group, *facts)) for group in groups])
    return Sides(
        _merge_inputs(ctx, len(sides.source.shards), [report.forward for report in joined]),
        _merge_inputs(ctx, len(sides.target.shards), [report.backward for report in joined]),
    )
