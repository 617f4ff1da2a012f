"""Search the rows that share a cluster of one group, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.devices import torch_threads
from mining.search.cluster_join import Members, join_group
from mining.search.vectors import STORED, from_stored
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import concatenated, open_array
from pipelines.transforms.search import save_neighbours


def read_members(step: Step, side: str) -> Members:
    """The rows of one side in a group, from what `assign` wrote for its shards."""
    group = step.params["group"]
    limits = [
        tuple(open_array(path, np.int64, (None,))[group : group + 2].tolist())
        for path in step.files(f"{side}.limits").paths
    ]

    def joined(kind: str, dtype: Any, *row: int) -> Any:
        return concatenated(step.files(f"{side}.{kind}").paths, dtype, row, limits)

    vectors = from_stored(joined("members", STORED, step.params["dim"]))
    return Members(joined("rows", np.int64), vectors, joined("clusters", np.int32, step.params["nearest"]))


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `group`, `k`, `dim`, `nearest`, `largest`; lists: what `assign` wrote for all shards
    of both sides; execution: `threads`."""
    with torch_threads(step.execution["threads"]):
        source, target = read_members(step, "source"), read_members(step, "target")
        found = join_group(source, target, step.params["k"], step.params["largest"])
    for name, members, lists in zip(("forward", "backward"), (source, target), found, strict=True):
        save_neighbours(outputs.path(f"{step.name}.{name}.npy"), lists)
        with open(outputs.path(f"{step.name}.{name}.rows.npy"), "wb") as out:
            np.save(out, members.rows, allow_pickle=False)
    return {"source_rows": len(source.rows), "target_rows": len(target.rows)}
