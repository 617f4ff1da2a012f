"""Versions of libraries: those of a worker, and those that markers record."""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines import steps as versions
from pipelines.engine import Engine
from pipelines.mine import MineResult
from pipelines.steps import Step, read_failure
from pipelines.worker import do_step
from tests.pipelines.made_up import step_in


def test_worker_with_other_versions_is_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = dataclasses.replace(step_in(tmp_path), versions=versions.versions_of(["numba"]))
    monkeypatch.setattr(versions, "version", lambda name: "0.1" if name == "numba" else "1.0")
    versions.check_versions({"numba": "0.1", "numpy": "1.0"})
    do_step(step)
    failure = read_failure(step)
    assert failure is not None
    wanted = step.versions["bitext_miner"]
    assert failure.known is True
    assert re.match(
        rf"a worker \(.+\) has bitext_miner 1\.0, but the run was started with {wanted}: install", failure.message
    )


def test_versions_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = versions.installed()
    assert found["numpy"] == np.__version__
    assert found["unicode"] == unicodedata.unidata_version
    assert found["python"] == platform.python_version()
    assert "none" not in found.values()
    monkeypatch.setitem(versions._DISTRIBUTIONS, "torch", ("no-such-distribution", "numpy"))
    versions.version.cache_clear()
    assert versions.version("torch") == np.__version__
    monkeypatch.setitem(versions._DISTRIBUTIONS, "torch", ("no-such-distribution",))
    versions.version.cache_clear()
    assert versions.version("torch") == "none"
    versions.version.cache_clear()


def test_marker_records_the_versions(run: Callable[..., MineResult], monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Step[Any]] = []
    engine_run = Engine.run

    def noted(self: Engine, given: Sequence[Step[Any]]) -> list[Any]:
        steps.extend(given)
        return engine_run(self, given)

    monkeypatch.setattr(Engine, "run", noted)
    run()
    assert len(steps) > 20
    for step in steps:
        wanted = versions.versions_of(step.find_stage().libraries)
        assert step.versions == wanted
        assert json.loads(step.marker_path.read_text(encoding="utf-8"))["versions"] == wanted
