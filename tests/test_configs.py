"""Every preset in configs/ is valid as it stands, says how it is run, and asks Beam for options that Beam has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from mining.config import MineConfig
from mining.settings import Settings, read_yaml, validate
from mining.training import TrainConfig
from mining.training.data import PrepareConfig
from pipelines.engine import pipeline_options

FOLDER = Path(__file__).parent.parent / "configs"
PRESETS = sorted(FOLDER.glob("*.yaml"))
MINING = [path for path in PRESETS if path.name.startswith(("bucc", "mine"))]


def model_of(path: Path) -> type[Settings]:
    if path.name.startswith("prepare") or path.stem.endswith("-data"):
        return PrepareConfig
    return MineConfig if path in MINING else TrainConfig


def test_there_are_presets() -> None:
    assert {"bucc", "mine-dask", "mine-flink", "mine-spark", "mine-dataflow"} <= {path.stem for path in PRESETS}


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_is_valid(path: Path) -> None:
    assert validate(model_of(path), read_yaml(path), str(path))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_begins_with_its_command(path: Path) -> None:
    head = [line for line in path.read_text(encoding="utf-8").split("\n") if line.startswith("#")]
    commands = [found[1] for line in head if (found := re.match(r"#\s+bitext \w+ --config configs/(\S+)", line))]
    assert commands
    assert set(commands) == {path.name}


@pytest.mark.parametrize("path", MINING, ids=lambda path: path.stem)
def test_runner_options_are_known_to_beam(path: Path) -> None:
    runner = validate(MineConfig, read_yaml(path), str(path)).runner
    resolved: dict[str, Any] = pipeline_options(runner, steps=3).get_all_options()
    for name, value in runner.options.items():
        # PipelineOptions takes unknown names without a word, so ask for those that it defines.
        assert name in PipelineOptions([]).get_all_options(), f"{path.name}: Beam has no option {name}"
        assert resolved[name] == value


@pytest.mark.parametrize("name", ["mine-flink", "mine-spark", "mine-dataflow"])
def test_preset_that_was_never_run_says_so(name: str) -> None:
    assert "NOT RUN HERE" in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
