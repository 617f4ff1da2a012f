"""Mining runs on the small task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mining.config.base import override, validate
from mining.config.mine import MineConfig, RunnerSettings
from pipelines import engine
from pipelines.engine import Engine
from pipelines.mine import MineResult, run_mine
from pipelines.progress import Progress
from pipelines.steps import Outputs, Step
from tests.conftest import Task
from tests.pipelines import made_up

#: What must not depend on shards, workers, threads, runner or restarts.
FILES = ("pairs.parquet", "pairs.tsv", "dropped.parquet", "candidates.parquet", "metrics.json")


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of the result files."""
    return {name: (folder / name).read_bytes() for name in FILES}


def config(task: Task, model: Path, output: Path, **changes: Any) -> MineConfig:
    """A run on the task, in several shards; dotted keys are written with two underscores."""
    columns = ["id", "text"]
    data = {
        "source": {"path": str(task.source), "columns": columns},
        "target": {"path": str(task.target), "columns": columns},
        "model": str(model),
        "output": str(output),
        "gold": str(task.gold),
        "shard": {"rows": 100},
        "runner": {"threads": 1},
    }
    if not changes.pop("with_gold", True):
        del data["gold"]
    return validate(MineConfig, override(data, {k.replace("__", "."): v for k, v in changes.items()}), "test")


@pytest.fixture
def run(task: Task, tiny_model: Path, tmp_path: Path) -> Callable[..., MineResult]:
    """Mine the task into a folder below tmp_path, with changed settings."""

    def mine(name: str = "run", **changes: Any) -> MineResult:
        return run_mine(config(task, changes.pop("model", tiny_model), tmp_path / name, **changes), quiet=True)

    return mine


@pytest.fixture(scope="session")
def finished(task: Task, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> MineResult:
    """An undisturbed run on one shard a side."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return run_mine(config(task, tiny_model, folder, shard__rows=10_000), quiet=True)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[made_up.Act], list[str]]:
    """Gives the made-up stage something to do; returns the list of the names of steps that it was
    called with."""
    calls: list[str] = []

    def become(act: made_up.Act) -> list[str]:
        def noted(params: made_up.Params, outputs: Outputs) -> Any:
            calls.append(outputs.name)
            return act(params, outputs)

        monkeypatch.setattr(made_up, "act", noted)
        return calls

    become(made_up.write)
    return become


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[made_up.Report]]:
    """Runs steps of the made-up stage by an engine whose runner is a function of the list of
    steps."""

    def run(runner: Callable[[list[Step[Any]]], None], *names: str) -> list[made_up.Report]:
        def pipeline(steps: Sequence[Step[Any]], settings: RunnerSettings) -> None:
            runner(list(steps))

        monkeypatch.setattr(engine, "run_pipeline", pipeline)
        steps = [made_up.step_in(tmp_path, name) for name in names or ("one",)]
        return Engine(RunnerSettings(), Progress(quiet=True)).run(steps)

    return run
