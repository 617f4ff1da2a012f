"""Merge the partial neighbour lists of one shard, and take the mean cosine of each list."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.margin import neighbour_means
from mining.search.neighbours import merge, no_neighbours
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array
from pipelines.stages.search import NEIGHBOUR, as_neighbours, save_neighbours


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `k`, `rows`; inputs: the partial lists against each shard of the other side."""
    rows, k = step.params["rows"], step.params["k"]
    lists = no_neighbours(rows, k)
    for path in step.inputs:
        lists = merge(lists, as_neighbours(open_array(step.path(path), NEIGHBOUR, (rows, k))), k)
    means = neighbour_means(lists.cosines)
    save_neighbours(outputs.path(f"{step.name}.lists.npy"), lists)
    with open(outputs.path(f"{step.name}.means.npy"), "wb") as out:
        np.save(out, means, allow_pickle=False)
    return {"mean_sum": float(np.sum(means)), "complete_lists": int((lists.ids[:, -1] >= 0).sum()) if rows else 0}
