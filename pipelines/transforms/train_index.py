"""Train an empty FAISS index on a sample of one side. The sample is chosen by row number, so shards
do not change it."""

from __future__ import annotations

from typing import Any

from mining.search.faiss_index import save_index, train_index
from pipelines.artefacts import Outputs, Step
from pipelines.transforms.clusters import sampled


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `index` (factory string), `sample` (rows), `rows` of the side, `dim`; lists: vectors
    and validity of its shards."""
    sample = sampled(step.files("vectors"), step.files("valid"), step.params["dim"], step.params["sample"])
    save_index(train_index(step.params["index"], sample), outputs.path(f"{step.name}.faiss"))
    return {"sample": len(sample)}
