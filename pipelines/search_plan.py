"""The steps of the search, by method: pairs of shards, indexes, or groups of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mining.search.cluster_search import Division
from mining.search.methods import METHODS
from pipelines.artefacts import Marker, Step

if TYPE_CHECKING:
    from pipelines.plan import Plan, Side


def joined(parts: Any) -> dict[str, str]:
    """Inputs of several markers as those of one step."""
    return {path: digest for part in parts for path, digest in part.items()}


def train_index(plan: Plan, sides: Sequence[Side], dim: int) -> list[Step]:
    """One trained, empty index a side."""
    search = plan.config.search.of("faiss")
    params = {"index": search.index, "sample": search.training_rows, "dim": dim}
    lists = plan.shard_lists(sides, "vectors", "valid")
    return [
        plan.step(
            "train_index",
            side.name,
            params,
            lists={kind: lists[f"{side.name}.{kind}"] for kind in ("vectors", "valid")},
        )
        for side in sides
    ]


def index(plan: Plan, side: Side, trained: Marker, dim: int) -> list[Step]:
    """One index a shard."""
    return [
        plan.step("index", f"{side.name}-{number:05d}", {"dim": dim}, {**trained.inputs(), **vectors.inputs()})
        for number, vectors in enumerate(side.vectors)
    ]


def search(plan: Plan, source: Side, target: Side, method: str, dim: int) -> list[Step]:
    """One step a pair of shards."""
    chosen, settings = METHODS[method], plan.config.search.of(method)
    params = {"k": plan.config.search.k, "dim": dim, "method": method}
    params["settings"] = settings.model_dump(exclude=set(settings.execution))
    if chosen.plan == "indexes":
        # What an index is made by is in the keys of its own steps.
        params["settings"] = {"parameters": settings.search_parameters, "refine_factor": settings.refine_factor}
    execution = {"threads": plan.threads, "settings": settings.model_dump(include=set(settings.execution))}
    sides = [list(enumerate(zip(side.firsts, side.vectors, strict=True))) for side in (source, target)]
    steps = []
    for (s, (first, vectors)), (t, (their_first, theirs)) in itertools.product(*sides):
        inputs = {**vectors.inputs(), **theirs.inputs()}
        if chosen.plan == "indexes":
            inputs |= {**source.indexes[s].inputs(), **target.indexes[t].inputs()}
        facts = {**params, "first": [first, their_first]}
        steps.append(plan.step("search", f"{s:05d}-{t:05d}", facts, inputs, execution=execution, uses=chosen.libraries))
    return steps


def clusters(plan: Plan, sides: Sequence[Side], division: Division, dim: int) -> list[Step]:
    """One step: the clusters are those of both sides."""
    params = {"division": division._asdict(), "dim": dim}
    lists = plan.shard_lists(sides, "vectors", "valid")
    return [plan.step("clusters", "clusters", params, lists=lists, execution={"threads": plan.threads})]


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
    lists = plan.shard_lists(sides, "limits", "rows", "clusters", "members")
    params = {"k": plan.config.search.k, "dim": dim, "nearest": division.nearest, "largest": division.largest}
    execution = {"threads": plan.threads}
    return [
        plan.step("join", f"{group:05d}", {**params, "group": group}, lists=lists, execution=execution)
        for group in range(groups)
    ]


def merge_pairs(plan: Plan, sides: Sequence[Side], found: Sequence[Marker]) -> list[Step]:
    """One step a shard of either side: its lists against all shards of the other; `found` is by
    pair of shards."""
    source, target = sides
    width = len(target.shards)
    steps = []
    for side, direction in ((source, "forward"), (target, "backward")):
        for number, (first, rows) in enumerate(zip(side.firsts, side.sizes, strict=True)):
            parts = found[number * width : (number + 1) * width] if side is source else found[number::width]
            files = plan.listed(joined(part.inputs(f".{direction}.npy") for part in parts))
            steps.append(_merge(plan, side, number, (first, rows), {"lists": files}))
    return steps


def merge_groups(plan: Plan, sides: Sequence[Side], found: Sequence[Marker]) -> list[Step]:
    """One step a shard of either side: its lists from all groups of clusters."""
    steps = []
    for side, direction in zip(sides, ("forward", "backward"), strict=True):
        suffixes = {"lists": f".{direction}.npy", "numbers": f".{direction}.rows.npy"}
        lists = {kind: plan.listed(joined(part.inputs(suffix) for part in found)) for kind, suffix in suffixes.items()}
        places = zip(side.firsts, side.sizes, strict=True)
        steps += [_merge(plan, side, number, place, lists) for number, place in enumerate(places)]
    return steps


def _merge(plan: Plan, side: Side, number: int, place: tuple[int, int], lists: dict[str, str]) -> Step:
    first, rows = place
    params = {"k": plan.config.search.k, "rows": rows, "first": first}
    return plan.step("merge", f"{side.name}-{number:05d}", params, lists=lists)
