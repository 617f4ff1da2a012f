"""Train the clusters of both sides on a sample. It is chosen by row number, so shards do not change
it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.devices import PARSING, torch_threads
from mining.search.cluster_search import Division, sample_places, train
from mining.search.clusters import Clusters
from mining.search.vectors import STORED, from_stored
from pipelines.artefacts import Outputs, Step
from pipelines.lists import FileList
from pipelines.sharded import ShardedArray, ShardFiles


def sampled(vectors: FileList, valid: FileList, dim: int, count: int) -> NDArray[np.float32]:
    """At most `count` unit rows, evenly spaced over the valid rows of a side, from the files of its
    shards."""
    usable = np.flatnonzero(np.concatenate(ShardFiles(valid, bool).all()))
    chosen = usable[sample_places(len(usable), count)]
    stored = ShardedArray(ShardFiles(vectors, STORED, (dim,)), vectors.firsts, vectors.total)
    return from_stored(stored.take(chosen))


def open_clusters(path: str) -> Clusters:
    """Clusters from the file of this stage."""
    with PARSING, np.load(path, allow_pickle=False) as arrays:
        return Clusters(*(np.require(arrays[name], requirements=["C", "W"]) for name in Clusters._fields))


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `division`, `dim`; lists: vectors and validity of the shards of both sides;
    execution: `threads`."""
    division = Division(**step.params["division"])
    with torch_threads(step.execution["threads"]):
        samples = [
            sampled(step.files(f"{side}.vectors"), step.files(f"{side}.valid"), step.params["dim"], division.sample)
            for side in ("source", "target")
        ]
        trained = train(samples[0], samples[1], division)
    with open(outputs.path("clusters.npz"), "wb") as out:
        np.savez(out, **trained._asdict())
    return {"clusters": len(trained.centroids), "groups": int(trained.groups.max()) + 1}
