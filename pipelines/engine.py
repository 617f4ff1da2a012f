"""Running the steps of a stage as one Beam pipeline, on any runner, with progress, errors and
skipping of finished steps; and what the stages of one run share."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from mining.config.mine import MineConfig, RunnerSettings
from mining.devices import resolve_threads
from mining.errors import BitextError, RunError, UsageError
from mining.io.atomic import check_place
from pipelines.inputs import RunInputs
from pipelines.progress import Progress
from pipelines.records import Artefact, Listing, Sides, artefacts, write_list
from pipelines.steps import Failure, I, Marker, P, R, Stage, Step, read_failure, read_marker, sweep, verified_marker
from pipelines.worker import CARRIED, carried_failure, do_step, peak_memory, reset_peak_memory

log = logging.getLogger(__name__)
# The driver says in one line what such an exception carries; the worker would log all that it went
# through.
for _name in ("apache_beam.runners.common", "apache_beam.runners.worker.sdk_worker"):
    logging.getLogger(_name).addFilter(lambda record: CARRIED not in record.getMessage())

LOCAL_RUNNERS = {"DirectRunner", "InProcessRunner"}
#: Runners that Beam knows by their full name only.
FULL_NAMES = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


class DoStep(beam.DoFn):
    """One element is one step; everything it produces is in files."""

    def process(self, step: Step[object]) -> Iterable[str]:
        """Do the step, unless its marker says that it is done."""
        do_step(step)
        yield step.name


def pipeline_options(settings: RunnerSettings, steps: int) -> PipelineOptions:
    """Beam options for a stage of so many steps; raises UsageError for a runner that must not be
    used."""
    name = settings.name
    if name in LOCAL_RUNNERS:
        raise UsageError(
            f"runner {name} may look for another program to start: use FnApiRunner, which runs in this process"
        )
    options: dict[str, object] = {"runner": FULL_NAMES.get(name, name), **settings.options}
    if name == "FnApiRunner":
        options.setdefault("direct_num_workers", settings.workers)
        options.setdefault("direct_running_mode", "in_memory" if settings.workers == 1 else "multi_threading")
        if options["direct_running_mode"] == "multi_processing":
            raise UsageError(
                "direct_running_mode multi_processing hangs when a worker dies: use DaskRunner for processes"
            )
    elif name == "DaskRunner":
        if settings.dask_address:
            options["dask_client_address"] = settings.dask_address
        options.setdefault("dask_npartitions", max(1, steps))
    flags = []
    for key, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            flags += [f"--{key}"] if item is True else [] if item is False else [f"--{key}={item}"]
    return PipelineOptions(flags)


def stage_work(accelerated: bool, settings: RunnerSettings) -> beam.PTransform:
    """The ParDo of a stage, with Beam's resource hint where the stage may use accelerators and the
    configuration asks for them."""
    work: beam.PTransform = beam.ParDo(DoStep())
    if settings.accelerator and accelerated:
        work = work.with_resource_hints(accelerator=settings.accelerator)
    return work


def run_pipeline(steps: Sequence[Step[object]], settings: RunnerSettings) -> None:
    """One Beam pipeline: ``Create | Reshuffle | ParDo`` over shard specs, the subset that every
    runner has."""
    stage, accelerated = steps[0].stage, steps[0].find_stage().accelerated
    pipeline = beam.Pipeline(options=pipeline_options(settings, len(steps)))
    _ = (
        pipeline
        | f"{stage}: shard specs" >> beam.Create(list(steps), reshuffle=False)
        | f"{stage}: spread" >> beam.Reshuffle()
        | f"{stage}: work" >> stage_work(accelerated, settings)
    )
    result = pipeline.run()
    try:
        result.wait_until_finish()
    finally:
        # The Dask runner opens a client for each pipeline and leaves it open.
        client = getattr(result, "client", None)
        if client is not None:
            client.close()


@dataclass(frozen=True)
class StageReport:
    """What a stage took. `seconds` is the wall time of this run; work, files (`bytes`) and memory
    (bytes) are those of all steps, whenever they were done."""

    stage: str
    steps: int
    skipped: int
    seconds: float
    worker_seconds: float
    cpu_seconds: float
    bytes: int
    peak_memory: int


class Engine:
    """Runs stages one after the other and remembers what each took."""

    def __init__(self, settings: RunnerSettings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.stages: list[StageReport] = []

    def run(self, steps: Sequence[Step[R]]) -> list[R]:
        """Do those of the steps of one stage that are not done; returns the reports of all in
        order. Raises the first error of a step."""
        started = time.monotonic()
        reset_peak_memory()
        found = {step.name: verified_marker(step) for step in steps}
        pending = [step for step in steps if found[step.name] is None]
        for step in pending:
            for path in (step.marker_path, step.error_path, step.progress_path):
                check_place(path)
                path.unlink(missing_ok=True)
        if pending:
            with self.progress.stage(steps[0].stage, len(steps), len(steps) - len(pending)) as advance:
                raised = self._run_watched(pending, advance)
            found |= _finished(pending, raised, self.settings.name)
        markers = [marker for step in steps if (marker := found[step.name]) is not None]
        _sweep_stage(steps, markers)
        self._record(steps, pending, markers, time.monotonic() - started)
        return [marker.report for marker in markers]

    def _run_watched(self, pending: Sequence[Step[R]], advance: Callable[[float], None]) -> Exception | None:
        """Run the pipeline, and show how far it is; returns what the runner raised."""
        done = threading.Event()

        def watch() -> None:
            # Files in the run folder are the one sign of progress that every runner shows.
            while not done.wait(0.25):
                advance(sum(step.done() for step in pending))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            run_pipeline(pending, self.settings)
        except BitextError:
            raise
        except Exception as error:
            return error
        finally:
            done.set()
            watcher.join()
        return None

    def _record(
        self, steps: Sequence[Step[R]], pending: Sequence[Step[R]], markers: Sequence[Marker[R]], seconds: float
    ) -> None:
        costs = [marker.cost for marker in markers]
        self.stages.append(
            StageReport(
                stage=steps[0].stage,
                steps=len(steps),
                skipped=len(steps) - len(pending),
                seconds=round(seconds, 3),
                worker_seconds=round(sum(cost.seconds for cost in costs), 3),
                cpu_seconds=round(sum(cost.cpu_seconds for cost in costs), 3),
                bytes=sum(file.bytes for marker in markers for file in artefacts(marker.report)),
                peak_memory=max([peak_memory(), *(cost.peak_memory for cost in costs)]),
            )
        )


def _finished(pending: Sequence[Step[R]], raised: Exception | None, runner: str) -> Mapping[str, Marker[R]]:
    """Markers by name of the step. A marker counts, whatever else a runner says or an attempt left;
    raises the first error of a step without one."""
    markers = {step.name: marker for step in pending if (marker := read_marker(step)) is not None}
    missing = [step for step in pending if step.name not in markers]
    if missing:
        raise _error(missing, raised, runner) from raised
    if raised is not None:
        log.warning("stage %s: %s failed when every step was done: %s", pending[0].stage, runner, _last_line(raised))
    return markers


def _error(missing: Sequence[Step[object]], raised: Exception | None, runner: str) -> BitextError:
    """The error to raise for steps that are not done."""
    failures = [(step, failure) for step in missing if (failure := read_failure(step)) is not None]
    if failures:
        step, failure = failures[0]
        more = f" ({len(failures)} steps of this stage failed; this is the first)" if len(failures) > 1 else ""
        return _step_error(step, failure, more, f"; the traceback is in {step.error_path}")
    carried = None if raised is None else carried_failure(raised)
    if carried is not None:
        name, failure = carried
        return _step_error(next((step for step in missing if step.name == name), missing[0]), failure)
    stage = missing[0].stage
    if raised is not None:
        return RunError(f"stage {stage} failed on {runner}: {_last_line(raised)}")
    return RunError(
        f"stage {stage}, {missing[0].name}: the runner ended without doing this step: run the command again"
    )


def _step_error(step: Step[object], failure: Failure, more: str = "", trace: str = "") -> BitextError:
    if failure.known:
        error = BitextError(f"{failure.message}{more}")
    else:
        error = RunError(f"stage {step.stage}, {step.name}: {failure.message}{more}{trace}")
    error.exit_code = failure.exit_code
    return error


def _sweep_stage(steps: Sequence[Step[R]], markers: Sequence[Marker[R]]) -> None:
    """Remove half-written files and those of an earlier plan from the stage's folder."""
    files = [Path(steps[0].run, file.path) for marker in markers for file in artefacts(marker.report)]
    sweep(steps[0].marker_path.parent, [*(step.marker_path for step in steps), *files])


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"


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

    def numbered(self, stage: Stage[I, P, R], side: str, work: Iterable[tuple[I, P]]) -> list[Step[R]]:
        """Steps for the files, chunks or shards of a side in their order: inputs and parameters of
        each."""
        return [self.step(stage, f"{side}-{number:05d}", *item) for number, item in enumerate(work)]

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
