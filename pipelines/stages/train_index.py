"""Train an empty FAISS index on a sample of one side. The sample is chosen by row number, so shards do not change
it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mining.search.faiss_index import save_index, train_index
from mining.search.vectors import STORED, from_stored
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import ShardedArray, open_array


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `index` (factory string), `sample` (rows), `rows` of the side, `dim`; inputs: vectors, then validity."""
    rows, dim = step.params["rows"], step.params["dim"]
    paths = [step.path(path) for path in step.inputs]
    vectors = [open_array(path, STORED, (None, dim)) for path in paths if not path.endswith(".valid.npy")]
    valid = np.concatenate([open_array(path, bool, (None,)) for path in paths if path.endswith(".valid.npy")])
    firsts = np.cumsum([0, *(len(part) for part in vectors)]).tolist()[:-1]
    usable = np.flatnonzero(valid)
    count = min(step.params["sample"], len(usable))
    chosen = usable[np.arange(count) * len(usable) // max(count, 1)]
    sample = from_stored(ShardedArray(vectors, firsts, rows).take(chosen))
    save_index(train_index(step.params["index"], sample), outputs.path(f"{step.name}.faiss"))
    return {"sample": count}
