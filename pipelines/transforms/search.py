"""Search one source shard and one target shard against each other, in both directions."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.devices import torch_threads
from mining.search.faiss_index import faiss_threads, open_index, search_index, set_parameters
from mining.search.neighbours import Neighbours
from mining.search.proposals import Proposer
from mining.search.shards import VectorShard, search_shards, spread, vector_shard
from mining.search.tiles import FaissProposer, tile_proposer
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


def _proposer(execution: dict[str, Any], outputs: Outputs) -> Proposer:
    if execution["backend"] == "faiss":
        return FaissProposer(execution["device"], report=outputs.report)
    return tile_proposer(execution["device"], execution["source_tile"], execution["target_tile"], outputs.report)


def _through_indexes(step: Step, source: VectorShard, target: VectorShard) -> tuple[Neighbours, Neighbours]:
    found = []
    paths = [path for path in step.inputs if path.endswith(".faiss")]
    for path, queries, base in ((paths[1], source, target), (paths[0], target, source)):
        index = open_index(step.path(path), step.params["dim"], rows=len(base.vectors))
        set_parameters(index, step.params["parameters"])
        lists = search_index(index, queries.vectors, base.vectors, step.params["k"], step.params["rescore"])
        found.append(spread(lists, queries, base, step.params["k"]))
    return found[0], found[1]


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `k`, `dim`, `method`, `first` row numbers of both shards and, for FAISS, `parameters`
    and `rescore`; inputs: vectors and validity of source and target and, for FAISS, their two
    indexes; execution: `backend`, `device`, tiles, `threads`."""
    paths = [step.path(path) for path in step.inputs if path.endswith(".npy")]
    first, dim, threads = step.params["first"], step.params["dim"], step.execution["threads"]
    source, target = read_shard(paths[:2], first[0], dim), read_shard(paths[2:], first[1], dim)
    uses_faiss = "faiss" in (step.params["method"], step.execution["backend"])
    with torch_threads(threads), faiss_threads(threads) if uses_faiss else contextlib.nullcontext():
        if step.params["method"] == "faiss":
            forward, backward = _through_indexes(step, source, target)
        else:
            forward, backward = search_shards(source, target, step.params["k"], _proposer(step.execution, outputs))
    save_neighbours(outputs.path(f"{step.name}.forward.npy"), forward)
    save_neighbours(outputs.path(f"{step.name}.backward.npy"), backward)
    return {"pairs_compared": len(source.vectors) * len(target.vectors)}
