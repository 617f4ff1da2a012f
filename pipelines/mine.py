"""The mining job: shard, encode, search, score, match, emit, each stage a Beam pipeline over shard specs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from mining import __version__
from mining.api import check_k
from mining.config import MineConfig
from mining.devices import resolve_threads
from mining.encoder import load_encoder
from mining.encoder.shipped import shipped_model
from mining.errors import InputError, UsageError
from mining.pairs import TEMPORARY
from mining.search.cluster_search import divide
from mining.search.planner import choose
from pipelines import search_plan
from pipelines.artefacts import Marker, write_json
from pipelines.engine import Engine
from pipelines.plan import SIDES, Plan, Side
from pipelines.progress import Progress
from pipelines.run_folder import locked, make_run_folder

LIBRARIES = ("apache-beam", "faiss-cpu", "numpy", "pyarrow", "sentencepiece", "torch")


@dataclass(frozen=True)
class MineResult:
    """What a run ended with: `metrics` as in ``metrics.json``, `report` the cost of each stage."""

    folder: Path
    pairs: int
    threshold: float | None
    metrics: dict[str, Any]
    report: list[dict[str, Any]]


class MineRun:
    """One run in its folder; stages in plain order, each waiting for the one before."""

    def __init__(self, config: MineConfig, progress: Progress) -> None:
        self.config = config
        self.folder = Path(config.output).absolute()
        self.engine = Engine(config.runner, progress)
        threads = config.runner.threads
        if not threads and config.runner.name == "FnApiRunner":
            # Elsewhere 0 stands for the cores of the worker, which only the worker knows.
            threads = max(1, resolve_threads(0) // config.runner.workers)
        self.plan = Plan(config, self.folder, threads)
        self.sides = [Side(name) for name in SIDES]

    def mine(self) -> MineResult:
        """Do what is not done yet."""
        # On the CPU, since only the workers need to have the device.
        models, dim = self._models()
        for leftover in self.folder.glob(f"*{TEMPORARY}*"):
            leftover.unlink()
        write_json(self.folder / "manifest.json", {"complete": False})
        self._shard()
        self._encode(models)
        self._search(dim)
        score = self.engine.run("score", self.plan.score(self.sides))
        self._deal(score, "runs")
        (matched,) = self.engine.run("match", self.plan.match(self.sides))
        result, files = self._emit(matched)
        self._write_reports(result, files, models, dim)
        return result

    def _models(self) -> tuple[dict[str, str], int]:
        """The hash that names the encoder of each side, and the length of a vector."""
        options = {side.name: self.config.encode.options(side.name) for side in self.sides}
        source = load_encoder(self.config.model, **options["source"])
        models, dim = {"source": source.hash, "target": source.hash}, source.dim
        del source
        if options["target"] != options["source"]:
            models["target"] = load_encoder(self.config.model, **options["target"]).hash
        return models, dim

    def _deal(self, markers: Sequence[Marker], kind: str) -> None:
        """Give the markers of a stage over both sides to their sides: source first."""
        count = len(self.sides[0].shards)
        setattr(self.sides[0], kind, list(markers[:count]))
        setattr(self.sides[1], kind, list(markers[count:]))

    def _shard(self) -> None:
        plan, engine = self.plan, self.engine
        steps = [plan.read(side.name) for side in self.sides]
        markers = engine.run("read", [*steps[0], *steps[1]])
        self.sides[0].read, self.sides[1].read = markers[: len(steps[0])], markers[len(steps[0]) :]
        for side in self.sides:
            _check_not_empty(side, getattr(self.config, side.name).paths)
        if self.config.gold:
            engine.run("gold", plan.gold(self.sides))
        steps = [plan.dedup(side) for side in self.sides]
        markers = engine.run("dedup", [*steps[0], *steps[1]])
        self.sides[0].dedup, self.sides[1].dedup = markers[: len(steps[0])], markers[len(steps[0]) :]
        steps = [plan.shard(side) for side in self.sides]
        markers = engine.run("shard", [*steps[0], *steps[1]])
        self.sides[0].shards, self.sides[1].shards = markers[: len(steps[0])], markers[len(steps[0]) :]

    def _encode(self, models: dict[str, str]) -> None:
        steps = [step for side in self.sides for step in self.plan.encode(side, models[side.name])]
        self._deal(self.engine.run("encode", steps), "vectors")
        check_k(self.config.search.k, *(side.valid for side in self.sides))

    def _search(self, dim: int) -> None:
        search = self.config.search
        source, target = self.sides
        choice = choose(search.method, source.valid, target.valid, dim, search, self.plan.threads)
        self.engine.progress.say(choice.line())
        self.choice = choice
        if choice.method == "clusters":
            found = self._join(dim)
        else:
            if choice.method == "faiss":
                self._index(dim)
            found = self.engine.run("search", search_plan.search(self.plan, source, target, choice.method, dim))
        steps = search_plan.merge(self.plan, self.sides, found, grouped=choice.method == "clusters")
        self._deal(self.engine.run("merge", steps), "lists")

    def _index(self, dim: int) -> None:
        plan, engine = self.plan, self.engine
        steps = [step for side in self.sides for step in search_plan.train_index(plan, side, dim)]
        trained = engine.run("train_index", steps)
        steps = [s for side, t in zip(self.sides, trained, strict=True) for s in search_plan.index(plan, side, t, dim)]
        self._deal(engine.run("index", steps), "indexes")

    def _join(self, dim: int) -> list[Marker]:
        plan, engine, search = self.plan, self.engine, self.config.search
        division = divide(self.sides[0].valid, self.sides[1].valid, search.clusters, search.nearest)
        (trained,) = engine.run("clusters", search_plan.clusters(plan, self.sides, division, dim))
        self._deal(engine.run("assign", search_plan.assign(plan, self.sides, trained, division, dim)), "members")
        return engine.run("join", search_plan.join(plan, self.sides, trained.info["groups"], division, dim))

    def _emit(self, matched: Marker) -> tuple[MineResult, list[Marker]]:
        plan, engine, config = self.plan, self.engine, self.config
        emitted = engine.run("emit", plan.emit(self.sides, matched))
        threshold = config.threshold if isinstance(config.threshold, float) else None
        origin = "given" if threshold is not None else "none"
        if config.threshold == "tune" or (config.threshold == "auto" and config.gold):
            (tuned,) = engine.run("threshold", plan.threshold(self.sides, emitted[0]))
            threshold, origin = tuned.info["threshold"], "tuned"
        outputs = engine.run("output", plan.output(self.sides, matched, emitted[0], threshold))
        facts = self._facts(matched, outputs, threshold, origin)
        (metrics,) = engine.run("metrics", plan.metrics(emitted, outputs[1], threshold, facts))
        if len(emitted) == 1:
            # An earlier configuration wanted candidates; these would be another run's.
            (self.folder / "candidates.parquet").unlink(missing_ok=True)
        pairs = outputs[0].info["pairs"]
        result = MineResult(self.folder, pairs, threshold, metrics.info, engine.report)
        return result, [*outputs, *emitted[1:], metrics]

    def _facts(
        self, matched: Marker, outputs: Sequence[Marker], threshold: float | None, origin: str
    ) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "margin": self.config.margin,
            "strategy": self.config.strategy,
            "k": self.config.search.k,
            "matched": matched.info["pairs"],
            "pairs": outputs[0].info["pairs"],
            "threshold": threshold,
            "threshold_from": origin,
            "floored_denominators": sum(run.info["floored"] for side in self.sides for run in side.runs),
        }
        for side in self.sides:
            unused = outputs[1].info["reasons"][side.name]
            rows = sum(chunk["rows"] for chunk in side.chunks)
            mean = sum(marker.info["mean_sum"] for marker in side.lists) / max(side.valid, 1)
            facts[side.name] = {
                "rows": rows,
                "distinct": side.rows,
                "with_vector": side.valid,
                "in_pairs": rows - sum(unused.values()),
                "unused": unused,
                "mean_neighbour_cosine": round(mean, 6),
            }
        return facts

    def _write_reports(self, result: MineResult, files: Sequence[Marker], models: dict[str, str], dim: int) -> None:
        resolved = self.folder / "config.resolved.yaml"
        text = yaml.safe_dump(self.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        if not resolved.exists() or resolved.read_text(encoding="utf-8") != text:
            resolved.write_text(text, encoding="utf-8")
        write_json(
            self.folder / "report.json", {"stages": result.report, "search": self.choice.facts(), "machine": _machine()}
        )
        inputs = {
            side.name: [
                {"path": path, "hash": digest}
                for step in self.plan.read(side.name)
                for path, digest in step.inputs.items()
            ]
            for side in self.sides
        }
        manifest = {
            "complete": True,
            "bitext_miner": __version__,
            "libraries": _versions(),
            "inputs": inputs,
            "model": _model_facts(self.config.model, models, dim),
            "files": {path: facts for marker in files for path, facts in marker.files.items()},
            "pairs": result.pairs,
            "threshold": result.threshold,
        }
        write_json(self.folder / "manifest.json", manifest)


def _check_not_empty(side: Side, paths: list[str]) -> None:
    if sum(chunk["usable"] for chunk in side.chunks):
        return
    rows = sum(chunk["rows"] for chunk in side.chunks)
    reasons = ", ".join(f"{count} {reason}" for reason, count in side.reasons().items())
    what = (
        f"all {rows} rows were dropped ({reasons})"
        if rows
        else "the file is empty"
        if len(paths) == 1
        else "all files are empty"
    )
    raise InputError(
        f"{', '.join(paths)}: no usable sentence on the {side.name} side: {what}; check the path and the text column"
    )


def _model_facts(path: str | None, models: dict[str, str], dim: int) -> dict[str, Any]:
    """Path (None: the shipped model), the hash (of each side, where they differ) and the dimension."""
    same = models["source"] == models["target"]
    return {"path": path, "hash": models["source"] if same else models, "dim": dim}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, Any]:
    return {"cpus": os.cpu_count(), "system": platform.platform(), "processor": platform.machine()}


def run_mine(config: MineConfig, quiet: bool = False) -> MineResult:
    """Mine as configured. Raises UsageError for what the user can mend before the run, InputError and RunError within
    it."""
    model = shipped_model() if config.model is None else config.model
    for name, path in (("model", model), ("gold", config.gold)):
        if path is not None and not Path(path).exists():
            raise UsageError(f"{name}: {path}: no such file or folder")
    folder = Path(config.output).absolute()
    make_run_folder(folder)
    with locked(folder):
        return MineRun(config, Progress(quiet)).mine()
