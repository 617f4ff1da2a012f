"""Encode one shard: float16 unit vectors and their validity, block by block."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray

from mining.encoder import SentenceEncoder, load_encoder
from mining.errors import RunError
from mining.search.vectors import STORED, to_stored
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import write_blocks

#: One model a process, whatever the number of threads; the tag is the model's hash.
_MODEL = Shared()
_BLOCK = 32_768


class _Model:
    """`Shared` holds weak references, and not every encoder can be referred to weakly.

    Raises RunError when what was loaded is not the model that the run began with; `Shared` keeps no
    such model.
    """

    def __init__(self, path: str | None, device: str, options: dict[str, Any], wanted: str) -> None:
        self.encoder: SentenceEncoder = load_encoder(path, device, **options)
        if self.encoder.hash != wanted:
            name = path or "the model that ships with the package"
            raise RunError(
                f"{name}: the model has changed since this run began ({self.encoder.hash}): run the command again"
            )


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `model` (hash), `rows`, `device`; execution: `path` of the model, `options` of
    loading it, `threads`; input: the shard."""
    device, wanted = step.params["device"], step.params["model"]
    facts = step.execution["path"], device, step.execution["options"], wanted
    model = _MODEL.acquire(lambda: _Model(*facts), tag=f"{wanted} {device}").encoder
    rows = step.params["rows"]
    valid = np.zeros(rows, dtype=bool)
    (shard,) = step.inputs

    def blocks() -> Iterator[NDArray[np.float16]]:
        start = 0
        with pq.ParquetFile(step.path(shard)) as file:
            for batch in file.iter_batches(_BLOCK, columns=["text"]):
                block, ok = model.encode(batch.column(0), step.execution["threads"])
                valid[start : start + len(block)] = ok
                start += len(block)
                outputs.report(start / rows)
                yield to_stored(block)

    with open(outputs.path(f"{step.name}.vectors.npy"), "wb") as out:
        write_blocks(out, STORED, (rows, model.dim), blocks())
    with open(outputs.path(f"{step.name}.valid.npy"), "wb") as out:
        np.save(out, valid, allow_pickle=False)
    if model.statistics is not None:
        # Of this worker so far; what a table of words holds depends on the shards before, so it is
        # not in the marker.
        logging.getLogger(__name__).info("%s: %s", step.name, model.statistics)
    return {"rows": rows, "dim": model.dim, "dtype": str(STORED), "model": model.hash, "valid": int(valid.sum())}
