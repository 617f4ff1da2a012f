"""The steps of the search, by method: pairs of shards, indexes, or groups of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mining.search.cluster_search import Division
from pipelines.artefacts import Marker, Step

if TYPE_CHECKING:
    from pipelines.plan import Plan, Side


def joined(parts: Any) -> dict[str, str]:
    """Inputs of several markers as those of one step."""
    return {path: digest for part in parts for path, digest in part.items()}


def train_index(plan: Plan, side: Side, dim: int) -> list[Step]:
    """One trained, empty index a side."""
    search = plan.config.search
    params = {"index": search.index, "sample": search.training_rows, "rows": side.rows, "dim": dim}
    return [plan.step("train_index", side.name, params, side.files("vectors", ".npy"))]


def index(plan: Plan, side: Side, trained: Marker, dim: int) -> list[Step]:
    """One index a shard."""
    return [
        plan.step("index", f"{side.name}-{number:05d}", {"dim": dim}, {**trained.inputs(), **vectors.inputs()})
        for number, vectors in enumerate(side.vectors)
    ]


def search(plan: Plan, source: Side, target: Side, method: str, dim: int) -> list[Step]:
    """One step a pair of shards."""
    settings = plan.config.search
    params: dict[str, Any] = {"k": settings.k, "dim": dim, "method": method}
    if method == "faiss":
        params |= {"parameters": settings.index_parameters, "rescore": settings.rescore}
    tiles = {"source_tile": settings.source_tile, "target_tile": settings.target_tile}
    steps = []
    for s, t in itertools.product(range(len(source.shards)), range(len(target.shards))):
        inputs = {**source.vectors[s].inputs(), **target.vectors[t].inputs()}
        if method == "faiss":
            inputs |= {**source.indexes[s].inputs(), **target.indexes[t].inputs()}
        first = [source.firsts[s], target.firsts[t]]
        execution = {"backend": settings.backend, "device": settings.device, "threads": plan.threads, **tiles}
        name = f"{s:05d}-{t:05d}"
        steps.append(plan.step("search", name, {**params, "first": first}, inputs, execution=execution))
    return steps


def clusters(plan: Plan, sides: Sequence[Side], division: Division, dim: int) -> list[Step]:
    """One step: the clusters are those of both sides."""
    files = [side.files("vectors", ".npy") for side in sides]
    params = {"division": division._asdict(), "dim": dim, "files": len(files[0])}
    return [plan.step("clusters", "clusters", params, joined(files), execution={"threads": plan.threads})]


def assign(plan: Plan, sides: Sequence[Side], trained: Marker, division: Division, dim: int) -> list[Step]:
    """One step a shard of either side."""
    return [
        plan.step(
            "assign",
            f"{side.name}-{number:05d}",
            {"side": place, "first": first, "nearest": division.nearest, "dim": dim},
            {**trained.inputs(), **vectors.inputs()},
            execution={"threads": plan.threads},
        )
        for place, side in enumerate(sides)
        for number, (vectors, first) in enumerate(zip(side.vectors, side.firsts, strict=True))
    ]


def join(plan: Plan, sides: Sequence[Side], groups: int, division: Division, dim: int) -> list[Step]:
    """One step a group of clusters."""
    files = [side.files("members", ".npy") for side in sides]
    params = {"k": plan.config.search.k, "dim": dim, "nearest": division.nearest, "largest": division.largest}
    params["files"] = len(files[0])
    execution = {"threads": plan.threads}
    return [
        plan.step("join", f"{group:05d}", {**params, "group": group}, joined(files), execution=execution)
        for group in range(groups)
    ]


def merge(plan: Plan, sides: Sequence[Side], found: Sequence[Marker], grouped: bool) -> list[Step]:
    """One step a shard of either side: its lists against all shards of the other, or from all groups of clusters."""
    source, target = sides
    steps = []
    for side, direction in ((source, "forward"), (target, "backward")):
        for number, rows in enumerate(side.sizes):
            width = len(target.shards)
            parts = found[number * width : (number + 1) * width] if side is source else found[number::width]
            inputs = joined(part.inputs(f".{direction}.npy") for part in parts)
            params = {"k": plan.config.search.k, "rows": rows, "first": side.firsts[number]}
            if grouped:
                inputs = joined(
                    {**part.inputs(f".{direction}.npy"), **part.inputs(f".{direction}.rows.npy")} for part in found
                )
            steps.append(plan.step("merge", f"{side.name}-{number:05d}", params, inputs))
    return steps
