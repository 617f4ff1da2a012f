"""Tune the threshold on gold: the best F1 of the matched pairs."""

from __future__ import annotations

from typing import Any

from mining.evaluation import evaluate_pairs
from mining.io.parquet import read_parquet
from pipelines.artefacts import Outputs, Step
from pipelines.transforms.gold import given_gold
from pipelines.transforms.output import write_ledger


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Inputs: gold first; execution: `matched` (path); lists: what the ledger needs, since
    duplicates stand for the id that was kept."""
    path = outputs.path("duplicates.parquet")
    write_ledger(step, path, used=False)
    result = evaluate_pairs(
        read_parquet(step.path(step.execution["matched"]), columns=["score", "source_id", "target_id"]),
        given_gold(step),
        dropped=path,
        threshold="tune",
    )
    return {"threshold": result.threshold}
