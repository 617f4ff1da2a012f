"""``metrics.json``: how many rows and pairs, and against gold precision, recall, F1 and what was missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mining.evaluation import evaluate_pairs, read_gold
from mining.pairs import read_parquet
from pipelines.artefacts import Outputs, Step, write_json


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `facts` (counts of the run), `threshold`; execution: `gold`, `pairs`, `dropped`, `candidates` (paths)."""
    metrics: dict[str, Any] = dict(step.params["facts"])
    if step.execution["gold"]:
        result = evaluate_pairs(
            read_parquet(step.path(step.execution["pairs"]), columns=["score", "source_id", "target_id"]),
            read_gold(step.execution["gold"]),
            dropped=step.path(step.execution["dropped"]),
            candidates=step.path(step.execution["candidates"]),
            threshold=step.params["threshold"],
        ).to_dict()
        result["threshold_from"] = step.params["facts"]["threshold_from"]
        metrics["bucc"] = result
    write_json(Path(outputs.path("metrics.json")), metrics)
    return metrics
