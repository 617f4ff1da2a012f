"""A stage that tests make up: what it does is `act`, which they replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pipelines.records import NOT_IN_KEY, Artefact, Listing
from pipelines.steps import Outputs, Step, stage

STAGE = "made_up"


@dataclass(frozen=True)
class Inputs:
    """A file, and perhaps a list of files."""

    file: Artefact = field(default_factory=lambda: Artefact("in", "hash", 1))
    more: Listing | None = None


@dataclass(frozen=True)
class Params:
    """The text to write."""

    text: str = "whole"
    threads: int = field(default=1, metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class Report:
    """The file, and facts of several types."""

    file: Artefact
    rows: int
    parts: dict[str, str]
    share: float


Act: TypeAlias = Callable[[Params, Outputs], Any]


def write(params: Params, outputs: Outputs) -> Report:
    """What the stage does unless a test replaces it: one file."""
    name = f"{outputs.name}.txt"
    Path(outputs.path(name)).write_text(params.text, encoding="utf-8")
    return Report(outputs.artefact(name), 3, {"2": "b", "10": "a"}, 0.25)


act: Act = write


@stage(STAGE)
def work(inputs: Inputs, params: Params, outputs: Outputs) -> Report:
    """Do what the test wants."""
    report: Report = act(params, outputs)
    return report


def step_in(
    folder: Path, name: str = "one", inputs: Inputs | None = None, params: Params | None = None, destination: str = ""
) -> Step[Report]:
    """A step of the stage."""
    return work.step(folder, name, inputs or Inputs(), params or Params(), destination)


def fail_with(error: BaseException) -> Act:
    """Something to do that fails when half of the file is written."""

    def fail(params: Params, outputs: Outputs) -> None:
        Path(outputs.path(f"{outputs.name}.txt")).write_text("half", encoding="utf-8")
        raise error

    return fail


def names(folder: Path) -> list[str]:
    """The files of the stage."""
    return sorted(path.name for path in (folder / "work" / STAGE).iterdir())
