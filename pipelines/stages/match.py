"""Match the scored candidates of all shards into aligned pairs, band by band of falling score."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from mining.matching import CANDIDATE, match
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `strategy`, `rows` of source and target; inputs: the runs."""
    runs = [open_array(step.path(path), CANDIDATE, (None,)) for path in step.inputs]
    path = outputs.path("pairs.npy")
    count = 0
    # The number of pairs is known at the end: they go to a nameless scratch file first, and then behind the header.
    with tempfile.TemporaryFile(dir=step.folder) as body:
        for block in match(runs, step.params["strategy"], *step.params["rows"]):
            body.write(block.tobytes())
            count += len(block)
        body.flush()
        pairs = np.lib.format.open_memmap(path, "w+", CANDIDATE, (count,))
        if count:
            pairs[:] = np.memmap(body, CANDIDATE, "r", shape=(count,))
            pairs.flush()
    return {"pairs": count}
