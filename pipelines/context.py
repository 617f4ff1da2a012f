"""What the stages of one run share: its configuration, folder, inputs and engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from mining.config.mine import MineConfig
from mining.devices import resolve_threads
from pipelines.engine import Engine
from pipelines.inputs import RunInputs
from pipelines.records import Artefact, Listing, Sides, write_list
from pipelines.steps import I, P, R, Stage, Step

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


@dataclass
class Context:
    """A run as the stages see it: they make steps in its folder, and run them by its engine."""

    config: MineConfig
    folder: Path
    inputs: RunInputs
    engine: Engine
    #: Lists that steps of this run name.
    listings: set[Listing] = field(default_factory=set)

    @property
    def threads(self) -> int:
        """Threads that one step may use. 0 stands for the cores of the worker, which only a worker
        elsewhere knows."""
        runner = self.config.runner
        if runner.threads or runner.name != "FnApiRunner":
            return runner.threads
        return max(1, resolve_threads(0) // runner.workers)

    def step(
        self,
        stage: Stage[I, P, R],
        name: str,
        inputs: I,
        params: P,
        destination: str = "",
        libraries: Sequence[str] = (),
    ) -> Step[R]:
        """A step in this run's folder."""
        return stage.step(self.folder, name, inputs, params, destination, libraries)

    def listing(self, files: Iterable[Artefact], rows: Sequence[int] = ()) -> Listing:
        """Write a list of files for steps to read."""
        listing = write_list(self.folder, files, rows)
        self.listings.add(listing)
        return listing

    def run(self, steps: Sequence[Step[R]]) -> list[R]:
        """Run the steps of a stage; returns their reports in order."""
        return self.engine.run(steps)

    def run_sides(self, items: Sides[T], plan: Callable[[T], list[Step[R]]]) -> Sides[list[R]]:
        """Run the steps that `plan` makes for either side as one stage; returns the reports of
        both."""
        steps = items.map(plan)
        reports = self.run([*steps.source, *steps.target])
        count = len(steps.source)
        return Sides(reports[:count], reports[count:])

    def run_two(self, first: Step[A], second: Step[B]) -> tuple[A, B]:
        """Run two steps of one stage that report differently."""
        steps: list[Step[object]] = [first, second]
        return cast("tuple[A, B]", tuple(self.run(steps)))
