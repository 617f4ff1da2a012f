"""Which search is right for so many rows, and what it will take.

`auto` goes by rows, dimensions and device, reckoned for one fixed machine (`REFERENCE_CORES`
cores), so that the same input and configuration give the same pairs everywhere. The memory, disk
and time at hand decide what is said, never what is done.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from mining.search.estimates import REFERENCE_CORES, Constants, Estimate, Task, cluster_estimate, exact_estimate
from mining.search.index_estimates import Index, index_estimate, usual_indexes

#: Exact search that takes no longer than this is not worth an approximation.
EXACT_SECONDS = 10.0


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
    @property
    def index_parameters(self) -> str: ...
    @property
    def rescore(self) -> int: ...
    @property
    def training_rows(self) -> int: ...


@dataclass(frozen=True)
class Choice:
    """The method, why, what it takes (None: not known), what exact search would take, and every
    method that was weighed."""

    method: str
    why: str
    task: Task
    expected: Estimate | None
    exact: Estimate
    alternatives: tuple[Estimate, ...]
    detail: str

    def line(self) -> str:
        """One line for the terminal."""
        took = "no estimate for this index"
        if self.expected is not None:
            took = f"expected {duration(self.expected.seconds)}, {size(self.expected.memory)}"
        # Only exact search uses it.
        where = " on the CPU" if self.task.gpus and self.method != "exact" else ""
        what = f"search: {self.method}{where} ({self.detail}): "
        if self.method == "exact":
            return f"{what}{took}"
        sides = f"{self.task.source_rows:,} x {self.task.target_rows:,}"
        return f"{what}{sides} would take about {duration(self.exact.seconds)} exactly; {took}"

    def facts(self) -> dict[str, Any]:
        """For ``report.json`` and ``bitext plan --json``; seconds and bytes."""
        return {
            "method": self.method,
            "why": self.why,
            "expected": None if self.expected is None else asdict(self.expected),
            "detail": self.detail,
            "exact": asdict(self.exact),
            "alternatives": [asdict(estimate) for estimate in self.alternatives],
            "task": asdict(self.task),
        }


def _automatic(task: Task) -> tuple[str, str]:
    """What `auto` stands for and why: reckoned for the reference machine, whatever this one is."""
    reference = Task(**{**asdict(task), "cores": REFERENCE_CORES, "shard_rows": Constants.shard_rows})
    exact, clusters = exact_estimate(reference), cluster_estimate(reference)
    on = "the GPU" if task.gpus else f"{REFERENCE_CORES} cores"
    if exact.seconds <= EXACT_SECONDS:
        return "exact", f"exact search takes {duration(exact.seconds)} on {on}"
    if exact.seconds <= clusters.seconds:
        return "exact", f"exact search on {on} is as fast as an approximation"
    return (
        "clusters",
        f"exact search would take {duration(exact.seconds)} on {on}, clusters {duration(clusters.seconds)}",
    )


def plan_search(task: Task, method: str = "auto", index: Index | None = None) -> Choice:
    """Weigh all methods for a task; `method` other than ``auto`` is taken as it is, ``faiss`` with
    its `index`."""
    why = "as configured"
    if method == "auto":
        method, why = _automatic(task)
    usual = usual_indexes(task)
    exact, clusters = exact_estimate(task), cluster_estimate(task)
    indexes = [estimate for estimate in (index_estimate(task, each) for each in usual) if estimate is not None]
    taken = index or usual[0]
    expected = {"exact": exact, "clusters": clusters}.get(method) or index_estimate(task, taken)
    detail = taken.detail if expected is None else expected.detail
    return Choice(method, why, task, expected, exact, (exact, clusters, *indexes), detail)


def configured_index(settings: _Settings) -> Index:
    """The index of `mining.config.mine.SearchSettings`."""
    return Index(settings.index, settings.index_parameters, settings.rescore, settings.training_rows)


def choose(method: str, source_rows: int, target_rows: int, dim: int, settings: _Settings, cores: int = 0) -> Choice:
    """The choice for a run with these `settings` (`mining.config.mine.SearchSettings`) on `cores`
    cores (0: all)."""
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
    return plan_search(task, method, configured_index(settings))


def advice(choice: Choice, memory: float | None, disk: float | None) -> list[str]:
    """What to do where the memory or the disk at hand (bytes) does not hold what the choice
    needs."""
    need = choice.expected
    if need is None:
        return [f"nothing is known of the time, memory and disk of search.index: {choice.detail}"]
    lines = []
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
