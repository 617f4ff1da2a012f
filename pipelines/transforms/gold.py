"""Check early that the gold standard belongs to the corpora: before anything costly is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mining.errors import InputError
from mining.evaluation.gold import Gold, check_known, read_gold
from mining.evaluation.tables import IdIndex
from mining.io.files import new_digest
from mining.io.parquet import read_parquet
from pipelines.artefacts import Outputs, Step


def given_gold(step: Step) -> Gold:
    """The gold standard, the first input of the step; raises InputError when it is not what the run
    began with."""
    path, wanted = next(iter(step.inputs.items()))
    digest = new_digest()
    gold = read_gold(path, digest)
    if digest.hexdigest() != wanted:
        raise InputError(f"{path}: the gold file changed during the run: run the command again")
    return gold


def _known(step: Step, side: str) -> Callable[[list[str]], list[bool]]:
    def known(ids: list[str]) -> list[bool]:
        wanted = IdIndex(ids)
        # One place more for ids that are not wanted.
        present = np.zeros(len(wanted) + 1, dtype=bool)
        for path in step.files(f"{side}.chunks").paths:
            present[wanted.find(read_parquet(path, columns=["id"]).column("id"))] = True
        return present[wanted.codes].tolist()

    return known


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Input: the gold file; lists: the chunks of both sides."""
    gold = given_gold(step)
    check_known(gold, _known(step, "source"), _known(step, "target"))
    return {"pairs": len(gold)}
