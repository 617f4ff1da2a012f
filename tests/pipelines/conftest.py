"""Mining runs on the small task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mining.config.base import override, validate
from mining.config.mine import MineConfig
from pipelines.mine import MineResult, run_mine
from tests.conftest import Task

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
