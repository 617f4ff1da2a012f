"""Running the steps of a stage as one Beam pipeline, on any runner, with progress, errors and skipping of finished
steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from mining.config import RunnerSettings
from mining.errors import BitextError, RunError, UsageError
from pipelines.artefacts import Marker, Step, read_failure, read_marker, sweep, verified_marker
from pipelines.progress import Progress
from pipelines.work import do_step, peak_memory, reset_peak_memory

#: Stages whose steps run on accelerators when the configuration asks for them.
ACCELERATED = frozenset({"encode", "search"})
LOCAL_RUNNERS = {"DirectRunner", "InProcessRunner"}
#: Runners that Beam knows by their full name only.
FULL_NAMES = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


class DoStep(beam.DoFn):
    """One element is one step; everything it produces is in files."""

    def process(self, step: Step) -> Iterable[str]:
        """Do the step, unless its marker says that it is done."""
        do_step(step)
        yield step.name


def pipeline_options(settings: RunnerSettings, steps: int) -> PipelineOptions:
    """Beam options for a stage of so many steps; raises UsageError for a runner that must not be used."""
    name = settings.name
    if name in LOCAL_RUNNERS:
        raise UsageError(
            f"runner {name} may look for another program to start: use FnApiRunner, which runs in this process"
        )
    options: dict[str, Any] = {"runner": FULL_NAMES.get(name, name), **settings.options}
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


def stage_work(stage: str, settings: RunnerSettings) -> beam.PTransform:
    """The ParDo of a stage, with Beam's resource hint where the configuration asks for accelerators."""
    work: beam.PTransform = beam.ParDo(DoStep())
    if settings.accelerator and stage in ACCELERATED:
        work = work.with_resource_hints(accelerator=settings.accelerator)
    return work


def run_pipeline(stage: str, steps: Sequence[Step], settings: RunnerSettings) -> None:
    """One Beam pipeline: ``Create | Reshuffle | ParDo`` over shard specs, the subset that every runner has."""
    pipeline = beam.Pipeline(options=pipeline_options(settings, len(steps)))
    _ = (
        pipeline
        | f"{stage}: shard specs" >> beam.Create(list(steps), reshuffle=False)
        | f"{stage}: spread" >> beam.Reshuffle()
        | f"{stage}: work" >> stage_work(stage, settings)
    )
    result = pipeline.run()
    try:
        result.wait_until_finish()
    finally:
        # The Dask runner opens a client for each pipeline and leaves it open.
        client = getattr(result, "client", None)
        if client is not None:
            client.close()


class Engine:
    """Runs stages one after the other and remembers what each cost."""

    def __init__(self, settings: RunnerSettings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.report: list[dict[str, Any]] = []

    def run(self, stage: str, steps: Sequence[Step], label: str | None = None) -> list[Marker]:
        """Do the steps that are not done; returns their markers in order. Raises the first error of a step."""
        started = time.monotonic()
        reset_peak_memory()
        found = {step.name: verified_marker(step) for step in steps}
        pending = [step for step in steps if found[step.name] is None]
        for step in pending:
            step.marker_path.unlink(missing_ok=True)
            step.error_path.unlink(missing_ok=True)
            step.progress_path.unlink(missing_ok=True)
        if pending:
            with self.progress.stage(label or stage, len(steps), len(steps) - len(pending)) as advance:
                self._run_watched(stage, pending, advance)
        markers = [found[step.name] or _finished(step) for step in steps]
        _sweep_stages(steps, markers)
        self._record(label or stage, steps, pending, markers, time.monotonic() - started)
        return markers

    def _run_watched(self, stage: str, pending: Sequence[Step], advance: Callable[[float], None]) -> None:
        done = threading.Event()

        def watch() -> None:
            # Files in the run folder are the one sign of progress that every runner shows.
            while not done.wait(0.25):
                advance(sum(step.done() for step in pending))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            run_pipeline(stage, pending, self.settings)
        except BitextError:
            raise
        except Exception as error:
            raise RunError(f"stage {stage} failed on {self.settings.name}: {_last_line(error)}") from error
        finally:
            done.set()
            watcher.join()
        for step in pending:
            failure = read_failure(step)
            if failure is not None:
                _raise(stage, step, failure, sum(s.error_path.exists() for s in pending))

    def _record(
        self, label: str, steps: Sequence[Step], pending: Sequence[Step], markers: Sequence[Marker], seconds: float
    ) -> None:
        # `seconds` is the wall time of this run; work and memory are those of all steps, whenever they were done.
        costs = [marker.cost for marker in markers]
        self.report.append(
            {
                "stage": label,
                "steps": len(steps),
                "skipped": len(steps) - len(pending),
                "seconds": round(seconds, 3),
                "worker_seconds": round(sum(cost["seconds"] for cost in costs), 3),
                "cpu_seconds": round(sum(cost["cpu_seconds"] for cost in costs), 3),
                "bytes": sum(facts["bytes"] for marker in markers for facts in marker.files.values()),
                "peak_memory": max([peak_memory(), *(cost["peak_memory"] for cost in costs)]),
            }
        )


def _finished(step: Step) -> Marker:
    marker = read_marker(step)
    if marker is None:
        raise RunError(
            f"stage {step.stage}, {step.name}: the runner ended without doing this step: run the command again"
        )
    return marker


def _sweep_stages(steps: Sequence[Step], markers: Sequence[Marker]) -> None:
    """Remove half-written files and those of an earlier plan from the stage's folder."""
    if not steps:
        return
    keep = {step.marker_path for step in steps}
    keep.update(Path(steps[0].run, file) for marker in markers for file in marker.files)
    sweep(steps[0].marker_path.parent, keep)


def _raise(stage: str, step: Step, failure: dict[str, Any], failed: int) -> None:
    more = f" ({failed} steps of this stage failed; this is the first)" if failed > 1 else ""
    if failure["known"]:
        error = BitextError(f"{failure['message']}{more}")
    else:
        error = RunError(
            f"stage {stage}, {step.name}: {failure['message']}{more}; the traceback is in {step.error_path}"
        )
    error.exit_code = failure["exit_code"]
    raise error


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"
