"""Search the rows that share a cluster of one group, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.devices import torch_threads
from mining.search.cluster_join import Members, join_group
from mining.search.vectors import STORED, from_stored
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array
from pipelines.stages.search import save_neighbours


def read_members(paths: list[str], group: int, nearest: int, dim: int) -> Members:
    """The rows of one side in a group, from what `assign` wrote for its shards."""
    files: dict[str, list[str]] = {kind: [] for kind in ("clusters", "limits", "rows", "vectors")}
    for path in paths:
        files[path.rsplit(".", 2)[1]].append(path)
    ranges = [open_array(path, np.int64, (None,))[group : group + 2] for path in files["limits"]]

    def joined(kind: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
        parts = zip(files[kind], ranges, strict=True)
        return np.concatenate([open_array(path, dtype, shape)[slice(*limits)] for path, limits in parts])

    vectors = from_stored(joined("vectors", STORED, (None, dim)))
    return Members(joined("rows", np.int64, (None,)), vectors, joined("clusters", np.int32, (None, nearest)))


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `group`, `k`, `dim`, `nearest`, `largest`, `files` (how many of the inputs are the source's); inputs:
    what `assign` wrote for all shards; execution: `threads`."""
    params = step.params
    paths = [step.path(path) for path in step.inputs]
    with torch_threads(step.execution["threads"]):
        source, target = (
            read_members(part, params["group"], params["nearest"], params["dim"])
            for part in (paths[: params["files"]], paths[params["files"] :])
        )
        found = join_group(source, target, params["k"], params["largest"])
    for name, members, lists in zip(("forward", "backward"), (source, target), found, strict=True):
        save_neighbours(outputs.path(f"{step.name}.{name}.npy"), lists)
        with open(outputs.path(f"{step.name}.{name}.rows.npy"), "wb") as out:
            np.save(out, members.rows, allow_pickle=False)
    return {"source_rows": len(source.rows), "target_rows": len(target.rows)}
