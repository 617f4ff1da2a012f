"""Search by clusters: both sides are divided by one clustering, and only rows that share a cluster
are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from mining.search.methods import (
    FLOAT_PRODUCTS,
    METHODS,
    PROCESS_BYTES,
    START_SECONDS,
    Estimate,
    MethodSettings,
    Runtime,
    SearchMethod,
    Task,
)

if TYPE_CHECKING:
    from mining.search.topk import Neighbours
    from mining.search.vectors import VectorShard

#: Operations a second of products of bytes, of a core.
BYTE_PRODUCTS = 300e9
#: Core seconds for a similarity that lists are brought up to date with, and for an entry of a list
#: recomputed.
LIST_UPDATE = 2.2e-9
#: Core seconds for a row in a group: written, read, converted, its list settled.
GROUP_ROW = 6e-6
#: How much more is compared than if rows were spread evenly over the clusters.
SKEW = 1.6
#: How much of the cores' time the join fills: parts of it have one thread, or wait for the disk.
BUSY = 0.8


class ClusterSettings(MethodSettings):
    """Settings of the search by clusters."""

    nlist: int | None = Field(default=None, gt=0)
    """Number of clusters; by default 8 times the root of the rows."""

    nprobe: int = Field(default=10, gt=0, le=256)
    """Clusters that a row is in: more find more neighbours and take longer."""


class ClusterJoin(SearchMethod[ClusterSettings]):
    help = "compares rows that share a cluster"
    settings = ClusterSettings
    plan = "clusters"
    automatic = True

    def estimate(self, task: Task, settings: ClusterSettings) -> Estimate:
        """The join of both sides cluster by cluster, on the CPU whatever the device."""
        from mining.search.cluster_join import EXTRA, GROUPS_PER_ROW, divide, group_rows
        from mining.search.clusters import ITERATIONS

        division = divide(task.source_rows, task.target_rows, settings.nlist, settings.nprobe, task.k)
        training = 2.0 * division.sample * division.nlist * (ITERATIONS + 1)
        assignment = float(task.rows) * division.nlist
        joined = min(1.0, SKEW * division.nprobe**2 / division.nlist) * task.pairs
        groups_per_row = min(division.groups, GROUPS_PER_ROW)
        seconds = (
            2 * task.dim * (training + assignment + joined) / BYTE_PRODUCTS
            + 2.0 * task.rows * task.dim**2 / FLOAT_PRODUCTS
            + joined * LIST_UPDATE
            + task.rows * groups_per_row * GROUP_ROW
        ) / (task.cores * BUSY) + START_SECONDS
        rows = min(1.3 * group_rows(task.k), max(task.source_rows, task.target_rows)) * 2
        memory = PROCESS_BYTES + max(
            rows * (7 * task.dim + 8 * (task.k + EXTRA) * (1 + task.cores) + 8 * division.nprobe),
            max(task.largest_shards) * (7 * task.dim + 20 * division.nprobe) + division.nlist * task.dim,
        )
        disk = task.rows * groups_per_row * (2 * task.dim + 8 + 4 * division.nprobe + 12 * task.k)
        detail = f"nlist {division.nlist:,}, nprobe {division.nprobe}, {division.groups} groups"
        return Estimate("clusters", detail, seconds, memory, disk)

    def search(
        self, source: VectorShard, target: VectorShard, k: int, settings: ClusterSettings, runtime: Runtime
    ) -> tuple[Neighbours, Neighbours]:
        from mining.search.cluster_join import search_clusters

        return search_clusters(source, target, k, settings.nlist, settings.nprobe)


METHODS.register("clusters")(ClusterJoin())
