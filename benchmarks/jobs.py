"""Whole mining jobs as a user starts them: one process each, their cost by stage from
``report.json``."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from corpora import SOURCE, TARGET, gold_pairs

from mining.evaluation.threshold import BestThreshold, best_threshold

LIBRARIES = ("apache-beam", "numba", "numpy", "pyarrow", "sentencepiece", "torch", "faiss-cpu")
STARTING = "start, end"
"""What a job does outside its stages: imports, the model, the reports."""


@dataclass(frozen=True)
class Stage:
    """One stage of one job; seconds are those of the driver's clock, `memory` and `disk` are
    bytes."""

    name: str
    seconds: float
    cpu: float
    memory: int
    disk: int


@dataclass(frozen=True)
class Job:
    """A finished job: wall seconds from the start of the process to its end, CPU seconds of the
    process, its stages."""

    seconds: float
    cpu: float
    stages: list[Stage]
    folder: Path

    @property
    def memory(self) -> int:
        """Peak memory of the process in bytes."""
        return max(stage.memory for stage in self.stages)


def mine(corpora: Path, output: Path, options: list[str]) -> Job:
    """Run ``bitext mine`` on corpora of `write_corpora`, from nothing; raises CalledProcessError
    when it fails."""
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "pipelines.cli", "mine", "--columns", "id,text", "--quiet"]
    command += ["--source", str(corpora / SOURCE), "--target", str(corpora / TARGET), "--output", str(output), *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))["stages"]
    stages = [_stage(entry) for entry in report]
    rest = seconds - sum(stage.seconds for stage in stages), cpu - sum(stage.cpu for stage in stages)
    return Job(seconds, cpu, [*stages, Stage(STARTING, *rest, 0, 0)], output)


def _stage(entry: dict[str, Any]) -> Stage:
    return Stage(entry["stage"], entry["seconds"], entry["cpu_seconds"], entry["peak_memory"], entry["bytes"])


def best_f1(job: Job, corpora: Path) -> BestThreshold:
    """The best F1 of the job's pairs against the gold pairs over all thresholds."""
    table = pq.read_table(job.folder / "pairs.parquet", columns=["score", "source_id", "target_id"])
    gold = gold_pairs(corpora)
    found = zip(table["source_id"].to_pylist(), table["target_id"].to_pylist(), strict=True)
    correct = np.fromiter((gold[source] == target for source, target in found), bool, len(table))
    return best_threshold(table["score"].to_numpy(), correct, len(gold))


def machine() -> str:
    """Processor, cores and versions, for the head of a report."""
    name = platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
        name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{library} {metadata.version(library)}" for library in LIBRARIES)
    return f"{name}, {cores} cores; Python {platform.python_version()}, {versions}"
