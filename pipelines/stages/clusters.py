"""Train the clusters of both sides on a sample. It is chosen by row number, so shards do not change it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.devices import torch_threads
from mining.search.cluster_search import Division, sample_places, train
from mining.search.clusters import Clusters
from mining.search.vectors import STORED, from_stored
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, open_array


def sampled(paths: list[str], dim: int, count: int) -> NDArray[np.float32]:
    """At most `count` unit rows, evenly spaced over the valid rows of a side, from the files of its shards."""
    vectors = [open_array(path, STORED, (None, dim)) for path in paths if not path.endswith(".valid.npy")]
    valid = np.concatenate([open_array(path, bool, (None,)) for path in paths if path.endswith(".valid.npy")])
    firsts = np.cumsum([0, *(len(part) for part in vectors)]).tolist()
    usable = np.flatnonzero(valid)
    chosen = usable[sample_places(len(usable), count)]
    return from_stored(ShardedArray(vectors, firsts[:-1], firsts[-1]).take(chosen))


def open_clusters(path: str) -> Clusters:
    """Clusters from the file of this stage."""
    with np.load(path, allow_pickle=False) as arrays:
        return Clusters(*(np.require(arrays[name], requirements=["C", "W"]) for name in Clusters._fields))


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `division`, `dim`, `files` (how many of the inputs are the source's); inputs: vectors and validity of the
    shards of both sides; execution: `threads`."""
    division, dim, files = Division(**step.params["division"]), step.params["dim"], step.params["files"]
    paths = [step.path(path) for path in step.inputs]
    with torch_threads(step.execution["threads"]):
        samples = [sampled(part, dim, division.sample) for part in (paths[:files], paths[files:])]
        trained = train(samples[0], samples[1], division)
    with open(outputs.path("clusters.npz"), "wb") as out:
        np.savez(out, **trained._asdict())
    return {"clusters": len(trained.centroids), "groups": int(trained.groups.max()) + 1}
