"""The mining job: the stages in plain order, each a Beam pipeline over shard specs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mining.config.mine import MineConfig
from mining.encoder.model_folder import bundled_model
from mining.errors import BitextError, UsageError
from mining.io.atomic import TEMPORARY
from mining.io.json_file import read_json
from mining.search.planner import Choice
from pipelines.engine import Context, Engine, StageReport
from pipelines.inputs import ModelState, RunInputs, signature
from pipelines.progress import Progress
from pipelines.records import sweep_lists
from pipelines.run_folder import PAIRS, begin, locked, make_run_folder, write_manifest, write_report
from pipelines.steps import sweep_stages
from pipelines.transforms.corpus import read_corpus
from pipelines.transforms.duplicates import drop_duplicates
from pipelines.transforms.encode import Models, encode_sides, load_models
from pipelines.transforms.pairs import emit_pairs, match_pairs, score_margins
from pipelines.transforms.results import Mined, Results, check_gold, write_results
from pipelines.transforms.search import search_neighbours


@dataclass(frozen=True)
class MineResult:
    """What a run ended with: `metrics` as in ``metrics.json``, `report` what each stage took."""

    folder: Path
    pairs: int
    threshold: float | None
    metrics: dict[str, Any]
    report: list[StageReport]
    #: Inputs, gold or model that are not what they were when the run began; the result is of what
    #: they were then.
    changed: list[str]


def run_stages(ctx: Context, models: Models) -> tuple[Choice, Results]:
    """All stages of a run: how it was searched, and what it has given."""
    read = read_corpus(ctx)
    check_gold(ctx, read)
    corpora = drop_duplicates(ctx, read)
    encoded = encode_sides(ctx, corpora, models)
    choice, searched = search_neighbours(ctx, encoded)
    scores = score_margins(ctx, searched)
    matched = match_pairs(ctx, corpora, scores)
    emitted = emit_pairs(ctx, corpora, searched, matched)
    return choice, write_results(ctx, Mined(corpora, encoded, searched, scores, matched), emitted)


def mine(config: MineConfig, progress: Progress) -> MineResult:
    """Do what is not done yet in the folder of a run, which is locked."""
    folder = Path(config.output).absolute()
    model = ModelState(config.model)
    models = load_models(config)
    ctx = Context(config, folder, RunInputs(config, model), Engine(config.runner, progress))
    for leftover in folder.glob(f"*{TEMPORARY}*"):
        leftover.unlink()
    earlier = begin(folder, config)
    try:
        choice, results = run_stages(ctx, models)
        return finish(ctx, models, choice, results)
    except BitextError as error:
        if earlier is not None and earlier == signature(folder / PAIRS):
            where = folder / PAIRS
            error.args = (f"{error.args[0]} ({where} and what lies beside it are still those of an earlier run)",)
        raise


def finish(ctx: Context, models: Models, choice: Choice, results: Results) -> MineResult:
    """Remove what no step of this run has made, see what has changed meanwhile, and write the
    reports."""
    stages = ctx.engine.stages
    changed = ctx.inputs.changes(models.hashes.source)
    sweep_stages(ctx.folder, {row.stage for row in stages})
    sweep_lists(ctx.folder, ctx.listings)
    write_report(ctx.folder, stages, choice.facts())
    hashes = models.hashes
    same = hashes.source == hashes.target
    facts = {
        "model": {"path": ctx.config.model, "hash": hashes.source if same else vars(hashes), "dim": models.dim},
        "pairs": results.pairs,
        "threshold": results.threshold,
        "changed_since": changed,
    }
    write_manifest(ctx.folder, ctx.inputs, results.files, facts)
    metrics = read_json(ctx.folder / "metrics.json")
    return MineResult(ctx.folder, results.pairs, results.threshold, metrics, stages, changed)


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
    progress = Progress(quiet)
    with locked(folder) as outdated:
        if outdated:
            progress.say(f"{folder}: was begun by another version of this program: all steps are done anew")
        return mine(config, progress)
