"""Search one source shard and one target shard against each other, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.devices import torch_threads
from mining.search.faiss_index import faiss_threads, open_index
from mining.search.methods import METHODS, Runtime
from mining.search.methods.faiss import FaissSettings, search_indexes
from mining.search.neighbours import Neighbours
from mining.search.shards import VectorShard, vector_shard
from mining.search.vectors import STORED
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array

#: Neighbour lists on disk: (rows, k), id -1 and cosine -inf where a list ends early.
NEIGHBOUR = np.dtype([("id", "<i8"), ("cosine", "<f4")])


def save_neighbours(path: str, lists: Neighbours) -> None:
    """Write lists as one structured array."""
    table = np.empty(lists.ids.shape, dtype=NEIGHBOUR)
    table["id"], table["cosine"] = lists.ids, lists.cosines
    with open(path, "wb") as out:
        np.save(out, table, allow_pickle=False)


def as_neighbours(table: NDArray[np.void]) -> Neighbours:
    """Lists from a structured array."""
    return Neighbours(np.ascontiguousarray(table["id"]), np.ascontiguousarray(table["cosine"]))


def read_shard(paths: list[str], first: int, dim: int) -> VectorShard:
    """The searchable part of a shard from its vectors and validity, which must agree in rows."""
    valid_path = next(path for path in paths if path.endswith(".valid.npy"))
    vectors_path = next(path for path in paths if path.endswith(".vectors.npy"))
    valid = np.array(open_array(valid_path, bool, (None,)))
    return vector_shard(first, valid, open_array(vectors_path, STORED, (len(valid), dim)))


def _through_indexes(
    step: Step, source: VectorShard, target: VectorShard, settings: FaissSettings
) -> tuple[Neighbours, Neighbours]:
    paths = [step.path(path) for path in step.inputs if path.endswith(".faiss")]
    indexes = [
        open_index(path, step.params["dim"], rows=len(side.vectors))
        for path, side in zip(paths, (source, target), strict=True)
    ]
    with faiss_threads(step.execution["threads"]):
        return search_indexes((source, target), indexes, step.params["k"], settings)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `k`, `dim`, `method`, `first` row numbers of both shards and the `settings` of the
    method that change the result; inputs: vectors and validity of source and target and, for FAISS,
    their two indexes; execution: the other `settings` and `threads`."""
    paths = [step.path(path) for path in step.inputs if path.endswith(".npy")]
    first, dim, threads = step.params["first"], step.params["dim"], step.execution["threads"]
    source, target = read_shard(paths[:2], first[0], dim), read_shard(paths[2:], first[1], dim)
    method = METHODS[step.params["method"]]
    settings = method.settings(**step.params["settings"], **step.execution["settings"])
    with torch_threads(threads):
        if method.plan == "indexes":
            forward, backward = _through_indexes(step, source, target, settings)
        else:
            runtime = Runtime(threads, outputs.report)
            forward, backward = method.search(source, target, step.params["k"], settings, runtime)
    save_neighbours(outputs.path(f"{step.name}.forward.npy"), forward)
    save_neighbours(outputs.path(f"{step.name}.backward.npy"), backward)
    return {"pairs_compared": len(source.vectors) * len(target.vectors)}
