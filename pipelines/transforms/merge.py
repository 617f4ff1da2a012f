"""Merge the partial neighbour lists of one shard, and take the mean cosine of each list."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.neighbour_scores import neighbour_means
from mining.search.cluster_search import add_lists
from mining.search.neighbours import Neighbours, merge, no_neighbours
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array
from pipelines.transforms.search import NEIGHBOUR, as_neighbours, save_neighbours


def _merged(step: Step, lists: Neighbours) -> Neighbours:
    """Lists of all rows of the shard, or of some rows of the side that stand in a file beside
    them."""
    rows, k, first = step.params["rows"], step.params["k"], step.params["first"]
    if "numbers" not in step.lists:
        for path in step.files("lists").paths:
            lists = merge(lists, as_neighbours(open_array(path, NEIGHBOUR, (rows, k))), k)
        return lists
    for path, beside in zip(step.files("lists").paths, step.files("numbers").paths, strict=True):
        numbers = open_array(beside, np.int64, (None,))
        start, stop = np.searchsorted(numbers, (first, first + rows))
        part = open_array(path, NEIGHBOUR, (len(numbers), k))[start:stop]
        add_lists(lists, numbers[start:stop] - first, as_neighbours(part), k)
    return lists


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `k`, `rows`, `first` row number; lists: the partial `lists` against each shard of the
    other side, or those of each group of clusters and the `numbers` of their rows."""
    lists = _merged(step, no_neighbours(step.params["rows"], step.params["k"]))
    means = neighbour_means(lists.cosines)
    save_neighbours(outputs.path(f"{step.name}.lists.npy"), lists)
    with open(outputs.path(f"{step.name}.means.npy"), "wb") as out:
        np.save(out, means, allow_pickle=False)
    complete = int((lists.ids[:, -1] >= 0).sum()) if step.params["rows"] else 0
    return {"mean_sum": float(np.sum(means)), "complete_lists": complete}
