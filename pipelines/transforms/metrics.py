"""``metrics.json``: how many rows and pairs, and against gold precision, recall, F1 and what was
missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mining.evaluation import evaluate_pairs
from mining.io.parquet import read_parquet
from pipelines.artefacts import Outputs, Step, write_json
from pipelines.transforms.gold import given_gold


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `facts` (counts of the run), `threshold`, `gold` (whether it is the first input);
    execution: `pairs`, `dropped`, `candidates` (paths)."""
    metrics: dict[str, Any] = dict(step.params["facts"])
    if step.params["gold"]:
        result = evaluate_pairs(
            read_parquet(step.path(step.execution["pairs"]), columns=["score", "source_id", "target_id"]),
            given_gold(step),
            dropped=step.path(step.execution["dropped"]),
            candidates=step.path(step.execution["candidates"]),
            threshold=step.params["threshold"],
        ).to_dict()
        result["threshold_from"] = step.params["facts"]["threshold_from"]
        metrics["bucc"] = result
    write_json(Path(outputs.path("metrics.json")), metrics)
    return metrics
