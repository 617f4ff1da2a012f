"""Add the vectors of one shard to a copy of its side's trained index."""

from __future__ import annotations

from typing import Any

from mining.search.faiss_index import add_rows, open_index, save_index
from pipelines.artefacts import Outputs, Step
from pipelines.transforms.search import read_shard


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `dim`; inputs: the trained index, vectors and validity of the shard."""
    trained, *shard = step.inputs
    vectors = read_shard([step.path(path) for path in shard], 0, step.params["dim"]).vectors
    index = open_index(step.path(trained), step.params["dim"], rows=0)
    add_rows(index, vectors)
    save_index(index, outputs.path(f"{step.name}.faiss"))
    return {"rows": len(vectors)}
