"""The mining job: shard, encode, search, score, match, emit, each stage a Beam pipeline over shard
specs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mining.api import check_k
from mining.config.mine import MineConfig
from mining.devices import resolve_threads
from mining.encoder import load_encoder
from mining.encoder.model_folder import bundled_model
from mining.errors import BitextError, InputError, RunError, UsageError
from mining.io.atomic import TEMPORARY
from mining.search.cluster_search import divide
from mining.search.planner import choose
from pipelines import reports, search_plan
from pipelines.artefacts import Marker, sweep_stages
from pipelines.engine import Engine
from pipelines.given import Given, GivenModel, signature
from pipelines.lists import sweep_lists
from pipelines.plan import SIDES, Plan, Side
from pipelines.progress import Progress
from pipelines.run_folder import locked, make_run_folder


@dataclass(frozen=True)
class MineResult:
    """What a run ended with: `metrics` as in ``metrics.json``, `report` the cost of each stage."""

    folder: Path
    pairs: int
    threshold: float | None
    metrics: dict[str, Any]
    report: list[dict[str, Any]]
    #: Inputs, gold or model that are not what they were when the run began; the result is of what
    #: they were then.
    changed: list[str]


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
        self.threads = threads
        self.sides = [Side(name) for name in SIDES]

    def mine(self) -> MineResult:
        """Do what is not done yet."""
        model = GivenModel(self.config.model)
        # On the CPU, since only the workers need to have the device.
        models, dim = self._models()
        self.given = Given(self.config, model)
        self.plan = Plan(self.config, self.given, self.folder, self.threads)
        for leftover in self.folder.glob(f"*{TEMPORARY}*"):
            leftover.unlink()
        earlier = reports.begin(self.folder, self.config)
        try:
            return self._stages(models, dim)
        except BitextError as error:
            if earlier is not None and earlier == signature(self.folder / reports.PAIRS):
                where = self.folder / reports.PAIRS
                error.args = (f"{error.args[0]} ({where} and what lies beside it are still those of an earlier run)",)
            raise

    def _stages(self, models: dict[str, str], dim: int) -> MineResult:
        self._shard()
        self._encode(models, dim)
        self._search(dim)
        score = self.engine.run("score", self.plan.score(self.sides))
        self._deal(score, "runs")
        (matched,) = self.engine.run("match", self.plan.match(self.sides))
        result, files = self._emit(matched)
        return self._end(result, files, models, dim)

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

    def _encode(self, models: dict[str, str], dim: int) -> None:
        steps = [step for side in self.sides for step in self.plan.encode(side, models[side.name])]
        self._deal(self.engine.run("encode", steps), "vectors")
        for side in self.sides:
            _check_vectors(side, models[side.name], dim)
        check_k(self.config.search.k, *(side.valid for side in self.sides))

    def _search(self, dim: int) -> None:
        search = self.config.search
        source, target = self.sides
        choice = choose(search, source.valid, target.valid, dim, self.plan.threads)
        self.engine.progress.say(choice.line())
        self.choice = choice
        if choice.method == "clusters":
            found = self._join(dim)
        else:
            if choice.method == "faiss":
                self._index(dim)
            found = self.engine.run("search", search_plan.search(self.plan, source, target, choice.method, dim))
        merge = search_plan.merge_groups if choice.method == "clusters" else search_plan.merge_pairs
        steps = merge(self.plan, self.sides, found)
        self._deal(self.engine.run("merge", steps), "lists")

    def _index(self, dim: int) -> None:
        plan, engine = self.plan, self.engine
        trained = engine.run("train_index", search_plan.train_index(plan, self.sides, dim))
        steps = [s for side, t in zip(self.sides, trained, strict=True) for s in search_plan.index(plan, side, t, dim)]
        self._deal(engine.run("index", steps), "indexes")

    def _join(self, dim: int) -> list[Marker]:
        plan, engine, search = self.plan, self.engine, self.config.search
        own = search.of("clusters")
        division = divide(self.sides[0].valid, self.sides[1].valid, own.nlist, own.nprobe, search.k)
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
        result = MineResult(self.folder, pairs, threshold, metrics.info, engine.report, [])
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
                "replaced": sum(marker.info["replaced"] for marker in side.read),
                "mean_neighbour_cosine": round(mean, 6),
            }
        return facts

    def _end(self, result: MineResult, files: Sequence[Marker], models: dict[str, str], dim: int) -> MineResult:
        """Remove what no step of this run has made, see what has changed meanwhile, and write the
        reports."""
        result = replace(result, changed=self.given.changes(models["source"]))
        sweep_stages(self.folder, {row["stage"] for row in result.report})
        sweep_lists(self.folder, self.plan.lists)
        reports.write_report(self.folder, result.report, self.choice.facts())
        facts = {
            "model": reports.model_facts(self.config.model, models, dim),
            "pairs": result.pairs,
            "threshold": result.threshold,
            "changed_since": result.changed,
        }
        reports.write_manifest(self.folder, self.given, files, facts)
        return result


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


def _check_vectors(side: Side, model: str, dim: int) -> None:
    """The shards of a side must never be of different models."""
    for marker in side.vectors:
        found = marker.info["model"], marker.info["dim"]
        if found != (model, dim):
            raise RunError(
                f"a shard of the {side.name} side was encoded by the model {found[0]} with {found[1]} dimensions, and "
                f"the run began with {model} and {dim}: run the command again"
            )


def run_mine(config: MineConfig, quiet: bool = False) -> MineResult:
    """Mine as configured. Raises UsageError for what the user can mend before the run, InputError
    and RunError within it."""
    model = bundled_model() if config.model is None else config.model
    for name, path in (("model", model), ("gold", config.gold)):
        if path is not None and not Path(path).exists():
            raise UsageError(f"{name}: {path}: no such file or folder")
    folder = Path(config.output).absolute()
    if os.fsencode(folder) != str(folder).encode("utf-8", "replace"):
        raise UsageError(f"{folder}: the name of the run folder is not UTF-8: choose another output")
    make_run_folder(folder)
    with locked(folder):
        return MineRun(config, Progress(quiet)).mine()
