"""Match the scored candidates of all shards into aligned pairs, band by band of falling score."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mining.matching import match
from mining.schemas import CANDIDATE
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array, write_blocks


def _blocks(body: BinaryIO) -> Iterator[NDArray[np.void]]:
    while data := body.read(CANDIDATE.itemsize * 65_536):
        yield np.frombuffer(data, CANDIDATE)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `strategy`, `rows` of source and target; lists: the runs of both sides."""
    runs = [open_array(path, CANDIDATE, (None,)) for side in ("source", "target") for path in step.files(side).paths]
    path = outputs.path("pairs.npy")
    count = 0
    # The number of pairs is known at the end: they go to a nameless scratch file first, and then
    # behind the header.
    with tempfile.TemporaryFile(dir=step.folder) as body:
        for block in match(runs, step.params["strategy"], *step.params["rows"]):
            body.write(block.tobytes())
            count += len(block)
        body.seek(0)
        with open(path, "wb") as out:
            write_blocks(out, CANDIDATE, (count,), _blocks(body))
    return {"pairs": count}
