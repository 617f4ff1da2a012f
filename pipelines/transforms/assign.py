"""Assign the rows of one shard to their nearest clusters, and write their vectors group by
group."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.devices import torch_threads
from mining.search.cluster_search import assign, partition
from mining.search.vectors import STORED
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array, write_blocks
from pipelines.transforms.clusters import open_clusters
from pipelines.transforms.search import read_shard

_BLOCK = 16_384


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `side` (0 or 1), `first` row number, `nearest`, `dim`; inputs: the clusters, vectors
    and validity of the shard; execution: `threads`.

    Writes, in order of the groups: row numbers, clusters (-1 for those of other groups), stored
    vectors, and where each group begins. A row is in each group that has one of its clusters.
    """
    clusters_path, *shard = (step.path(path) for path in step.inputs)
    dim = step.params["dim"]
    trained = open_clusters(clusters_path)
    with torch_threads(step.execution["threads"]):
        part = read_shard(shard, step.params["first"], dim)
        clusters = assign(part.vectors, trained, step.params["side"], step.params["nearest"])
    places = part.rows
    del part
    dealt = partition(clusters, trained.groups)
    rows = places[dealt.rows]
    for name, array in (("rows", rows), ("clusters", dealt.clusters), ("limits", dealt.limits)):
        with open(outputs.path(f"{step.name}.{name}.npy"), "wb") as out:
            np.save(out, array, allow_pickle=False)
    stored = open_array(next(path for path in shard if path.endswith(".vectors.npy")), STORED, (None, dim))
    wanted = rows - step.params["first"]
    with open(outputs.path(f"{step.name}.vectors.npy"), "wb") as out:
        blocks = (stored[wanted[start : start + _BLOCK]] for start in range(0, len(wanted), _BLOCK))
        write_blocks(out, STORED, (len(wanted), dim), blocks)
    return {"rows": len(clusters), "written": len(rows)}
