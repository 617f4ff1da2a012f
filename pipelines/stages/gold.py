"""Check early that the gold standard belongs to the corpora: before anything costly is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mining.evaluation.gold import check_known, read_gold
from mining.evaluation.ids import IdIndex
from mining.pairs import read_parquet
from pipelines.artefacts import Outputs, Step


def _known(step: Step, side: str) -> Callable[[list[str]], list[bool]]:
    def known(ids: list[str]) -> list[bool]:
        wanted = IdIndex(ids)
        # One place more for ids that are not wanted.
        present = np.zeros(len(wanted) + 1, dtype=bool)
        for path in step.execution[side]:
            present[wanted.find(read_parquet(step.path(path), columns=["id"]).column("id"))] = True
        return present[wanted.codes].tolist()

    return known


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Execution: `gold` (path), and the chunks of `source` and `target`."""
    gold = read_gold(step.execution["gold"])
    check_known(gold, _known(step, "source"), _known(step, "target"))
    return {"pairs": len(gold)}
