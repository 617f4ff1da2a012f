"""Which search is right for so many rows, and what it will take.

`auto` goes by rows, dimensions and device, reckoned for one fixed machine (`REFERENCE_CORES` cores), so that the same
input and configuration give the same pairs everywhere. The memory, disk and time at hand decide what is said, never
what is done.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from mining.search.cluster_join import EXTRA
from mining.search.cluster_search import GROUPS_PER_ROW, Division, divide, group_rows
from mining.search.clusters import ITERATIONS

REFERENCE_CORES = 2
#: Exact search that takes no longer than this is not worth an approximation.
EXACT_SECONDS = 10.0


@dataclass(frozen=True)
class Constants:
    """Measured on two cores of an AMD EPYC with AVX512 (BF16 and VNNI), 300 dimensions; a core is one of them.

    Not measured, but assumed: `exact_gpu`, `scan` and `fast_scan`.
    """

    #: Operations a second of the exact tile pass, lists and certification included: a core (in bfloat16; without
    #: instructions for it half as many), and a GPU (H100) in float16.
    exact: float = 130e9
    exact_gpu: float = 150e12
    #: Operations a second of products of bytes, and of the float32 products that transform vectors: a core.
    byte_products: float = 300e9
    float_products: float = 50e9
    #: Core seconds for a similarity that lists are brought up to date with, and for an entry of a list recomputed.
    list_update: float = 2.2e-9
    #: Core seconds for a row in a group: written, read, converted, its list settled.
    group_row: float = 6e-6
    #: How much more is compared than if rows were spread evenly over the clusters.
    skew: float = 1.6
    #: How much of the cores' time the join fills: parts of it have one thread, or wait for the disk.
    busy: float = 0.8
    #: Seconds that any search takes to start its stages, and a stage's step.
    start: float = 1.5
    #: Operations a second of an inverted file's scan and of a fast scan of 4-bit codes (a code counts as 4 dimensions).
    scan: float = 20e9
    fast_scan: float = 250e9
    #: Memory of the program itself in bytes, and of a shard's rows beside their vectors.
    base: int = 450_000_000
    shard_rows: int = 250_000


class _Settings(Protocol):
    @property
    def k(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def clusters(self) -> int | None: ...
    @property
    def nearest(self) -> int: ...
    @property
    def index(self) -> str: ...


@dataclass(frozen=True)
class Task:
    """What is to be searched: rows of both sides, dimensions, k, device and cores; `shards` rows at most in one."""

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
    """What a method takes: seconds of wall time, bytes of memory of a process and of disk beside the vectors."""

    method: str
    detail: str
    seconds: float
    memory: float
    disk: float
    exact: bool = False


def exact_estimate(task: Task, constants: Constants = Constants()) -> Estimate:
    """Both directions from one product a tile."""
    work = 2.0 * task.pairs * task.dim
    rate = constants.exact_gpu if task.device.startswith("cuda") else constants.exact * task.cores
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


def inverted_lists(rows: int) -> int:
    """Lists of an inverted file: four times the root of the rows of a shard, as FAISS advises, to a power of two."""
    return 1 << max(4, round(4 * max(1, rows) ** 0.5).bit_length() - 1)


def faiss_estimates(task: Task, constants: Constants = Constants()) -> list[Estimate]:
    """An inverted file over whole vectors, and a fast scan of product-quantised codes; cosines recomputed."""
    shards = [-(-rows // task.shard_rows) for rows in (task.source_rows, task.target_rows)]
    largest = task.largest_shards
    lists = inverted_lists(max(largest))
    probes = max(8, lists // 32)
    both = constants.base + sum(largest) * (6 * task.dim + 40 * task.k)
    probed = 2 * task.pairs * probes / lists * 2 * task.dim
    quantiser = 2.0 * lists * task.dim * (task.source_rows * shards[1] + task.target_rows * shards[0] + task.rows)
    quantiser += 100_000 * 2.0 * lists * task.dim * 25 * 2
    found = [
        Estimate(
            "faiss",
            f"IVF{lists},Flat nprobe={probes}",
            (probed / constants.scan + quantiser / constants.float_products) / task.cores + constants.start,
            both + max(largest) * (4 * task.dim + 8),
            task.rows * (4.0 * task.dim + 8),
        )
    ]
    codes = task.dim // 4
    if codes:
        found.append(
            Estimate(
                "faiss",
                f"PQ{codes}x4fs",
                2 * task.pairs * 2 * task.dim / constants.fast_scan / task.cores + constants.start,
                both + max(largest) * codes / 2,
                task.rows * codes / 2.0,
            )
        )
    return found


@dataclass(frozen=True)
class Choice:
    """The method, why, what it takes, what exact search would take, and every method that was weighed."""

    method: str
    why: str
    task: Task
    expected: Estimate
    exact: Estimate
    alternatives: tuple[Estimate, ...]

    def line(self) -> str:
        """One line for the terminal."""
        took = f"expected {duration(self.expected.seconds)}, {size(self.expected.memory)}"
        what = f"search: {self.method} ({self.expected.detail}): "
        if self.method == "exact":
            return f"{what}{took}"
        sides = f"{self.task.source_rows:,} x {self.task.target_rows:,}"
        return f"{what}{sides} would take about {duration(self.exact.seconds)} exactly; {took}"

    def facts(self) -> dict[str, Any]:
        """For ``report.json`` and ``bitext plan --json``; seconds and bytes."""
        return {
            "method": self.method,
            "why": self.why,
            "expected": asdict(self.expected),
            "exact": asdict(self.exact),
            "alternatives": [asdict(estimate) for estimate in self.alternatives],
            "task": asdict(self.task),
        }


def _automatic(task: Task) -> tuple[str, str]:
    """What `auto` stands for and why: reckoned for the reference machine, whatever this one is."""
    reference = Task(**{**asdict(task), "cores": REFERENCE_CORES, "shard_rows": Constants.shard_rows})
    exact, clusters = exact_estimate(reference), cluster_estimate(reference)
    on = "the GPU" if task.device.startswith("cuda") else f"{REFERENCE_CORES} cores"
    if exact.seconds <= EXACT_SECONDS:
        return "exact", f"exact search takes {duration(exact.seconds)} on {on}"
    if exact.seconds <= clusters.seconds:
        return "exact", f"exact search on {on} is as fast as an approximation"
    return (
        "clusters",
        f"exact search would take {duration(exact.seconds)} on {on}, clusters {duration(clusters.seconds)}",
    )


def plan_search(task: Task, method: str = "auto", index: str | None = None) -> Choice:
    """Weigh all methods for a task; `method` other than ``auto`` is taken as it is, ``faiss`` with its `index`."""
    why = "as configured"
    if method == "auto":
        method, why = _automatic(task)
    alternatives = (exact_estimate(task), cluster_estimate(task), *faiss_estimates(task))
    expected = next(estimate for estimate in alternatives if estimate.method == method)
    if method == "faiss" and index is not None:
        compressed = "PQ" in index
        expected = alternatives[-1] if compressed else expected
        expected = Estimate("faiss", index, expected.seconds, expected.memory, expected.disk)
    return Choice(method, why, task, expected, alternatives[0], alternatives)


def choose(method: str, source_rows: int, target_rows: int, dim: int, settings: _Settings, cores: int = 0) -> Choice:
    """The choice for a run with these `settings` (`mining.config.SearchSettings`) on `cores` cores (0: all)."""
    from mining.devices import resolve_threads

    task = Task(
        source_rows=source_rows,
        target_rows=target_rows,
        dim=dim,
        k=settings.k,
        device=settings.device,
        cores=resolve_threads(cores),
        clusters=settings.clusters,
        nearest=settings.nearest,
    )
    return plan_search(task, method, settings.index)


def advice(choice: Choice, memory: float | None, disk: float | None) -> list[str]:
    """What to do where the memory or the disk at hand (bytes) does not hold what the choice needs."""
    lines = []
    need = choice.expected
    if memory is not None and need.memory > memory:
        lines.append(
            f"{size(need.memory)} of memory are expected and {size(memory)} are given: lower shard.rows"
            + (" or leave the choice to search.method: clusters" if choice.method != "clusters" else "")
        )
    if disk is not None and need.disk > disk:
        codes = choice.alternatives[-1]
        lines.append(
            f"{size(need.disk)} of disk are expected and {size(disk)} are given: search.method: faiss with "
            f"search.index: {codes.detail} needs {size(codes.disk)} and {duration(codes.seconds)}"
        )
    return lines


def size(count: float) -> str:
    """Bytes as MB, GB or TB."""
    for unit, limit in (("TB", 1e12), ("GB", 1e9)):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Seconds as the largest fitting unit."""
    for unit, limit in (("days", 172_800), ("h", 7200), ("min", 90)):
        if seconds >= limit:
            divisor = {"days": 86_400, "h": 3600, "min": 60}[unit]
            return f"{seconds / divisor:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
