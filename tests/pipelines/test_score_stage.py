"""The stage that scores: what it tells beside the best candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.artefacts import Outputs, Step
from pipelines.lists import write_list
from pipelines.transforms import score
from pipelines.transforms.search import NEIGHBOUR


@pytest.mark.parametrize(("margin", "floored"), [("ratio", 1), ("distance", 0), ("absolute", 0)])
def test_floored_denominators_are_counted_for_ratios_only(tmp_path: Path, margin: str, floored: int) -> None:
    lists = np.array([[(0, 0.5)], [(1, 0.5)], [(-1, -np.inf)]], dtype=NEIGHBOUR)
    np.save(tmp_path / "own.lists.npy", lists)
    np.save(tmp_path / "own.means.npy", np.array([0.0005, 0.9, 0.0]))
    np.save(tmp_path / "their.means.npy", np.array([0.0005, 0.9]))
    params: dict[str, Any] = {"side": "source", "margin": margin, "first": 0, "rows": 3, "k": 1}
    inputs = {"own.lists.npy": "", "own.means.npy": ""}
    means = write_list(tmp_path, {"their.means.npy": ""}, [2])
    step = Step(str(tmp_path), "score", "source-00000", params, inputs, lists={"means": means})
    assert score.run(step, Outputs(step)) == {"candidates": 2, "floored": floored}
