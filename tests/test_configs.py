"""Every preset in configs/ is valid as it stands, says how it is run, and asks Beam for options
that Beam has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from mining.config.base import Settings, read_yaml, validate
from mining.config.mine import MineConfig, RunnerSettings
from mining.errors import UsageError
from mining.training import TrainConfig
from mining.training.data import PrepareConfig
from pipelines import engine
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


LOCAL = ["--runner=FnApiRunner"]
DASK = ["--runner=apache_beam.runners.dask.dask_runner.DaskRunner"]


@pytest.mark.parametrize(
    ("runner", "steps", "flags"),
    [
        ({}, 5, [*LOCAL, "--direct_num_workers=1", "--direct_running_mode=in_memory"]),
        ({"workers": 3}, 5, [*LOCAL, "--direct_num_workers=3", "--direct_running_mode=multi_threading"]),
        (
            {"options": {"direct_num_workers": 2, "direct_running_mode": "multi_threading"}},
            5,
            [*LOCAL, "--direct_num_workers=2", "--direct_running_mode=multi_threading"],
        ),
        ({"name": "DaskRunner"}, 0, [*DASK, "--dask_npartitions=1"]),
        ({"name": "DaskRunner", "options": {"dask_npartitions": 7}}, 5, [*DASK, "--dask_npartitions=7"]),
        (
            {"name": "DaskRunner", "dask_address": "here:1"},
            5,
            [*DASK, "--dask_client_address=here:1", "--dask_npartitions=5"],
        ),
        (
            {"name": "FlinkRunner", "dask_address": "here:1", "options": {"a": True, "b": False, "c": ["x", "y"]}},
            5,
            ["--runner=FlinkRunner", "--a", "--c=x", "--c=y"],
        ),
    ],
)
def test_flags_that_beam_is_given(
    runner: dict[str, Any], steps: int, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PipelineOptions", list)
    given: Any = pipeline_options(RunnerSettings(**runner), steps)
    assert given == flags


@pytest.mark.parametrize(
    "runner", [{"name": "DirectRunner"}, {"options": {"direct_running_mode": "multi_processing"}, "workers": 2}]
)
def test_runners_that_are_refused(runner: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        pipeline_options(RunnerSettings(**runner), steps=5)
