"""What exact search and clusters take: seconds, memory and disk, reckoned from measured
constants."""

from __future__ import annotations

from dataclasses import dataclass

from mining.search.cluster_join import EXTRA
from mining.search.cluster_search import GROUPS_PER_ROW, Division, divide, group_rows
from mining.search.clusters import ITERATIONS

REFERENCE_CORES = 2


@dataclass(frozen=True)
class Constants:
    """Measured on two cores of an AMD EPYC with AVX512 (BF16 and VNNI), 300 dimensions; a core is
    one of them.

    Not measured, but assumed: `exact_gpu`, `scan`, `lookups` and `small_products`.
    """

    #: Operations a second of the exact tile pass, lists and certification included: a core (in
    #: bfloat16; without instructions for it half as many), and a GPU (H100) in float16.
    exact: float = 130e9
    exact_gpu: float = 150e12
    #: Operations a second of products of bytes, and of the float32 products that transform vectors:
    #: a core.
    byte_products: float = 300e9
    float_products: float = 50e9
    #: Core seconds for a similarity that lists are brought up to date with, and for an entry of a
    #: list recomputed.
    list_update: float = 2.2e-9
    #: Core seconds for a row in a group: written, read, converted, its list settled.
    group_row: float = 6e-6
    #: How much more is compared than if rows were spread evenly over the clusters.
    skew: float = 1.6
    #: How much of the cores' time the join fills: parts of it have one thread, or wait for the
    #: disk.
    busy: float = 0.8
    #: Seconds that any search takes to start its stages, and a stage's step.
    start: float = 1.5
    #: FAISS, a core: operations a second of its flat index, of scanning lists of whole vectors, of
    #: scalar codes, and of the vectors that a graph leads to.
    flat: float = 80e9
    scan: float = 20e9
    scalar_codes: float = 2e9
    graph: float = 10e9
    #: Codes of product quantisers a second: of four bits in a fast scan, of eight bits looked up
    #: one by one; and operations a second of learning them.
    fast_scan: float = 31e9
    lookups: float = 1e9
    small_products: float = 5e9
    #: Memory of the program itself in bytes, and of a shard's rows beside their vectors.
    base: int = 450_000_000
    shard_rows: int = 250_000


@dataclass(frozen=True)
class Task:
    """What is to be searched: rows of both sides, dimensions, k, device and cores; `shards` rows at
    most in one."""

    source_rows: int
    target_rows: int
    dim: int
    k: int = 4
    device: str = "cpu"
    cores: int = REFERENCE_CORES
    clusters: int | None = None
    nearest: int = 10
    shard_rows: int = Constants.shard_rows

    @property
    def gpus(self) -> int:
        """How many GPUs the device setting names; ``cuda:all`` counts as one, since the machine is
        not looked at."""
        return self.device.count(",") + 1 if self.device.startswith("cuda") else 0

    @property
    def pairs(self) -> float:
        """Similarities of exact search."""
        return float(self.source_rows) * self.target_rows

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.source_rows + self.target_rows

    @property
    def largest_shards(self) -> tuple[int, int]:
        """Rows of the largest shard of each side."""
        return min(self.source_rows, self.shard_rows), min(self.target_rows, self.shard_rows)


@dataclass(frozen=True)
class Estimate:
    """What a method takes: seconds of wall time, bytes of memory of a process and of disk beside
    the vectors."""

    method: str
    detail: str
    seconds: float
    memory: float
    disk: float
    exact: bool = False


def exact_estimate(task: Task, constants: Constants = Constants()) -> Estimate:
    """Both directions from one product a tile."""
    work = 2.0 * task.pairs * task.dim
    rate = constants.exact_gpu * task.gpus if task.gpus else constants.exact * task.cores
    shards = [-(-side // task.shard_rows) for side in (task.source_rows, task.target_rows)]
    rows = sum(task.largest_shards)
    # Vectors as float32 and as the product takes them, lists, tiles.
    memory = constants.base + rows * (6 * task.dim + 40 * (task.k + EXTRA)) + 64_000_000
    lists = 12.0 * task.k * (task.source_rows * shards[1] + task.target_rows * shards[0])
    return Estimate(
        "exact", f"{shards[0]:,} x {shards[1]:,} shards", constants.start + work / rate, memory, lists, True
    )


def cluster_division(task: Task) -> Division:
    """The division of the cluster join."""
    return divide(task.source_rows, task.target_rows, task.clusters, task.nearest, task.k)


def cluster_estimate(task: Task, constants: Constants = Constants()) -> Estimate:
    """The join of both sides cluster by cluster, on the CPU whatever the device."""
    division = cluster_division(task)
    training = 2.0 * division.sample * division.clusters * (ITERATIONS + 1)
    assignment = float(task.rows) * division.clusters
    joined = min(1.0, constants.skew * division.nearest**2 / division.clusters) * task.pairs
    groups_per_row = min(division.groups, GROUPS_PER_ROW)
    seconds = (
        2 * task.dim * (training + assignment + joined) / constants.byte_products
        + 2.0 * task.rows * task.dim**2 / constants.float_products
        + joined * constants.list_update
        + task.rows * groups_per_row * constants.group_row
    ) / (task.cores * constants.busy) + constants.start
    rows = min(1.3 * group_rows(task.k), max(task.source_rows, task.target_rows)) * 2
    memory = constants.base + max(
        rows * (7 * task.dim + 8 * (task.k + EXTRA) * (1 + task.cores) + 8 * division.nearest),
        max(task.largest_shards) * (7 * task.dim + 20 * division.nearest) + division.clusters * task.dim,
    )
    disk = task.rows * groups_per_row * (2 * task.dim + 8 + 4 * division.nearest + 12 * task.k)
    detail = f"K {division.clusters:,}, {division.nearest} nearest, {division.groups} groups"
    return Estimate("clusters", detail, seconds, memory, disk)
