"""Score the candidates of one shard by margin and keep the best of each row, sorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.matching import best_candidates
from mining.schemas import BACKWARD, FORWARD
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, ShardFiles, open_array
from pipelines.transforms.search import NEIGHBOUR, as_neighbours


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `side`, `margin`, `first`, `rows`, `k`; inputs: own lists and means; list: the
    `means` of the other side; execution: `threads`."""
    rows, k, first = step.params["rows"], step.params["k"], step.params["first"]
    lists_path, means_path = step.inputs
    lists = as_neighbours(open_array(step.path(lists_path), NEIGHBOUR, (rows, k)))
    own = np.array(open_array(step.path(means_path), np.float64, (rows,)))
    means = step.files("means")
    theirs = ShardedArray(ShardFiles(means, np.float64), means.firsts, means.total).take(lists.ids)
    numbers = np.arange(first, first + rows, dtype=np.int64)
    direction = FORWARD if step.params["side"] == "source" else BACKWARD
    threads = step.execution.get("threads", 1)
    best, undefined = best_candidates(numbers, lists, own, theirs, step.params["margin"], direction, threads)
    with open(outputs.path(f"{step.name}.npy"), "wb") as out:
        np.save(out, best, allow_pickle=False)
    return {"candidates": len(best), "floored": undefined}
