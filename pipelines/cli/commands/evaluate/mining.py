"""``bitext evaluate mining``: F1 of a model on a mining task, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.cli.commands.evaluate import EVALUATIONS
from pipelines.cli.options import Call, command
from pipelines.cli.say import check_json, closing, limit_text, share, show_table, warn

if TYPE_CHECKING:
    from mining.config.evaluate import MiningTaskConfig
    from mining.evaluation.mining import MarginResult


@EVALUATIONS.register("mining")
@command(
    "mining.config.evaluate:MiningTaskConfig",
    "evaluate mining --model model --source de-en.training.de --target de-en.training.en "
    "--columns id,text --gold de-en.training.gold",
    "evaluate mining --model model --source de.tsv --target en.tsv --columns id,text --gold gold.tsv "
    "--margin ratio,distance,absolute --strategy intersection --json f1.json",
    file=None,
)
def mining(settings: MiningTaskConfig, call: Call) -> None:
    """Mine a task in memory: precision, recall and F1 against gold for each margin.

    The same pairs as `bitext mine --gold` finds, without a run folder, for tasks that fit into
    memory. The threshold is tuned on all gold pairs, and held out by folds.
    """
    from mining.encoder.load import load_encoders
    from mining.evaluation.mining import evaluate_mining, read_mining_task

    check_json(settings.json_file, *settings.source.paths, *settings.target.paths, settings.gold)
    task = read_mining_task(settings.source, settings.target, settings.gold)
    encoder, target_encoder = load_encoders(settings, settings.source_language, settings.target_language)
    results = evaluate_mining(
        task,
        encoder,
        margins=list(dict.fromkeys(settings.margin)),
        strategy=settings.strategy,
        k=settings.k,
        folds=settings.folds or None,
        target_encoder=target_encoder,
        threads=settings.threads,
    )
    _show(results)
    best = max(results, key=lambda name: results[name].f1)
    line = f"F1 {share(results[best].f1)} by the {best} margin at threshold {limit_text(results[best].tuned.threshold)}"
    report: dict[str, Any] = {"margins": {name: result.to_dict() for name, result in results.items()}}
    report |= {"model": encoder.hash, "strategy": settings.strategy, "k": settings.k}
    closing(line, settings.json_file, report)


def _show(results: dict[str, MarginResult]) -> None:
    rows = []
    for name, result in results.items():
        tuned = result.tuned
        shares = [share(value) for value in (tuned.precision, tuned.recall, tuned.f1)]
        folds = share(result.held_out.f1) if result.held_out is not None else ""
        rows.append([name, *shares, limit_text(tuned.threshold), folds])
    show_table("mined pairs", ["margin", "precision", "recall", "F1", "threshold", "F1, held out"], rows)
    domains = {name: result.tuned.domains for name, result in results.items() if result.tuned.domains is not None}
    if domains:
        names = list(next(iter(domains.values())))
        table = [
            [domain, str(next(iter(domains.values()))[domain]["gold"])]
            + [share(found[domain]["recall"]) for found in domains.values()]
            for domain in names
        ]
        show_table("recall per gold domain", ["domain", "gold", *domains], table)
    for warning in dict.fromkeys(w for result in results.values() for w in result.tuned.warnings):
        warn(warning)
