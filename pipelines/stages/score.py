"""Score the candidates of one shard by margin and keep the best of each row, sorted."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mining.margin import count_floored
from mining.matching import BACKWARD, FORWARD, best_candidates
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, open_array
from pipelines.stages.search import NEIGHBOUR, as_neighbours


def other_means(step: Step) -> ShardedArray:
    """The neighbour means of the other side; params `other_firsts` and `other_rows` say where its shards begin and
    end."""
    limits = [*step.params["other_firsts"], step.params["other_rows"]]
    paths = [path for path in step.inputs if path.endswith(".means.npy")][1:]
    sizes = [stop - start for start, stop in itertools.pairwise(limits)]
    parts = [open_array(step.path(path), np.float64, (size,)) for path, size in zip(paths, sizes, strict=True)]
    return ShardedArray(parts, step.params["other_firsts"], step.params["other_rows"])


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `side`, `margin`, `first`, `rows`, `k`, the other side's shards; inputs: own lists and means, other
    means; execution: `threads`."""
    rows, k, first = step.params["rows"], step.params["k"], step.params["first"]
    lists_path, means_path, *_ = step.inputs
    lists = as_neighbours(open_array(step.path(lists_path), NEIGHBOUR, (rows, k)))
    own = np.array(open_array(step.path(means_path), np.float64, (rows,)))
    theirs = other_means(step).take(lists.ids)
    numbers = np.arange(first, first + rows, dtype=np.int64)
    direction = FORWARD if step.params["side"] == "source" else BACKWARD
    threads = step.execution.get("threads", 1)
    best = best_candidates(numbers, *lists, own, theirs, step.params["margin"], direction, threads)
    with open(outputs.path(f"{step.name}.npy"), "wb") as out:
        np.save(out, best, allow_pickle=False)
    found = lists.ids >= 0
    floored = count_floored(np.broadcast_to(own[:, None], found.shape)[found], theirs[found])
    return {"candidates": len(best), "floored": floored if step.params["margin"] == "ratio" else 0}
