"""Which search is right for so many rows, and what it will take, by the estimates of the methods.

`auto` goes by rows, dimensions and device, for one fixed machine (`REFERENCE_CORES` cores), so that
the same input and configuration give the same pairs everywhere. The memory, disk and time at hand
decide what is said, never what is done.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from mining.config.search import AUTO, SearchSettings
from mining.search.methods import METHODS, REFERENCE_CORES, SHARD_ROWS, Estimate, Task

#: Exact search that takes no longer than this is not worth an approximation.
EXACT_SECONDS = 10.0
EXACT = "exact"


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
    settings: dict[str, object]

    def line(self) -> str:
        """One line for the terminal."""
        took = "no estimate for this index"
        if self.expected is not None:
            took = f"expected {duration(self.expected.seconds)}, {size(self.expected.memory)}"
        where = " on the CPU" if self.task.gpus and not METHODS[self.method].uses_gpu else ""
        what = f"search: {self.method}{where} ({self.detail}): "
        if self.method == EXACT:
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
            "settings": self.settings,
            "exact": asdict(self.exact),
            "alternatives": [asdict(estimate) for estimate in self.alternatives],
            "task": asdict(self.task),
        }


def _estimate(name: str, task: Task, settings: SearchSettings) -> Estimate | None:
    return METHODS[name].estimate(task, settings.of(name))


def _automatic(task: Task, settings: SearchSettings) -> tuple[str, str]:
    """What `auto` stands for and why: estimated for the reference machine, whatever this one is."""
    reference = replace(task, cores=REFERENCE_CORES, shard_rows=SHARD_ROWS)
    found = {name: _estimate(name, reference, settings) for name in settings.methods()}
    seconds = {name: estimate.seconds for name, estimate in found.items() if estimate is not None}
    exact = seconds.pop(EXACT)
    fastest = min(seconds, key=seconds.__getitem__)
    on = "the GPU" if task.gpus else f"{REFERENCE_CORES} cores"
    if exact <= EXACT_SECONDS:
        return EXACT, f"exact search takes {duration(exact)} on {on}"
    if exact <= seconds[fastest]:
        return EXACT, f"exact search on {on} is as fast as an approximation"
    return fastest, f"exact search would take {duration(exact)} on {on}, {fastest} {duration(seconds[fastest])}"


def plan_search(task: Task, settings: SearchSettings) -> Choice:
    """Choose the method of these settings for a task, and estimate all methods."""
    method, why = (settings.method, "as configured")
    if method == AUTO:
        method, why = _automatic(task, settings)
    own = settings.of(method)
    expected = METHODS[method].estimate(task, own)
    listed = [
        METHODS[name].estimate(task, usual)
        for name in sorted(METHODS, key=lambda name: name != EXACT)
        for usual in METHODS[name].usual(task, settings.of(name))
    ]
    alternatives = tuple(estimate for estimate in listed if estimate is not None)
    exact = next(estimate for estimate in alternatives if estimate.method == EXACT)
    detail = METHODS[method].describe(own) if expected is None else expected.detail
    return Choice(method, why, task, expected, exact, alternatives, detail, own.model_dump())


def choose(settings: SearchSettings, source_rows: int, target_rows: int, dim: int, cores: int = 0) -> Choice:
    """The choice for a run with these settings on `cores` cores (0: all)."""
    from mining.devices import resolve_threads

    task = Task(source_rows, target_rows, dim, settings.k, settings.device, resolve_threads(cores))
    return plan_search(task, settings)


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
        indexes = [estimate for estimate in choice.alternatives if estimate.method == "faiss"]
        codes = min(indexes, key=lambda estimate: estimate.disk)
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
