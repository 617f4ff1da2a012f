"""``bitext evaluate mining``: F1 of a model on a mining task, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.evaluate.encoders import (
    Device,
    Dim,
    Dtype,
    Json,
    Model,
    SourceLanguage,
    TargetLanguage,
    Threads,
    load_sides,
)
from pipelines.cli.evaluate.output import limit_text, refuse_inputs, share, show_table, write_json
from pipelines.cli.say import say, warn

if TYPE_CHECKING:
    from mining.evaluation.mining import MarginResult

MINING_HELP = """Mine a task in memory and measure it against gold: precision, recall and F1 for each margin.

The same pairs as `bitext mine --gold` finds, without a run folder, for tasks that fit into memory. The threshold is
tuned on all gold pairs, and held out by folds.

Examples:

    bitext evaluate mining --model model --source de-en.training.de --target de-en.training.en --columns id,text
    --gold de-en.training.gold

    bitext evaluate mining --model model --source de.tsv --target en.tsv --columns id,text --gold gold.tsv
    --margin ratio,distance,absolute --strategy intersection --json f1.json
"""


def mining(
    source: Annotated[list[str], typer.Option(help="Source sentences: path or glob.")],
    target: Annotated[list[str], typer.Option(help="Target sentences, likewise.")],
    gold: Annotated[str, typer.Option(help="Lines of source id, tab, target id; a third column is a domain.")],
    model: Model = None,
    format: Annotated[str, typer.Option(help="Format of the corpora.")] = "auto",
    columns: Annotated[str | None, typer.Option(help="Columns of TSV corpora, for example id,text.")] = None,
    margin: Annotated[str, typer.Option(help="ratio, distance, absolute; several with commas.")] = "ratio,absolute",
    strategy: Annotated[str, typer.Option(help="max, intersection, forward or backward.")] = "max",
    k: Annotated[int, typer.Option(help="Nearest neighbours a side.", min=1)] = 4,
    folds: Annotated[int, typer.Option(help="Folds of the gold pairs; 0: none.")] = 5,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dim: Dim = None,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    threads: Threads = 0,
    json_: Json = None,
) -> None:
    from mining.config.base import validate
    from mining.corpus import CorpusSpec
    from mining.evaluation.mining import evaluate_mining, read_mining_task

    margins = _checked(margin, strategy)
    refuse_inputs(json_, *source, *target, gold)
    common = {"format": format, "columns": [name.strip() for name in columns.split(",")] if columns else None}
    specs = [
        validate(CorpusSpec, {"path": paths, **common}, f"--{side}")
        for side, paths in (("source", source), ("target", target))
    ]
    task = read_mining_task(specs[0], specs[1], gold)
    encoder, target_encoder = load_sides(model, device, dim, dtype, (source_language, target_language))
    results = evaluate_mining(
        task,
        encoder,
        margins=margins,
        strategy=strategy,
        k=k,
        folds=folds or None,
        target_encoder=target_encoder,
        threads=threads,
    )
    _show(results)
    best = max(results, key=lambda name: results[name].f1)
    closing = f"F1 {share(results[best].f1)} by the {best} margin at threshold "
    closing += limit_text(results[best].tuned.threshold)
    if json_ is not None:
        report: dict[str, Any] = {"margins": {name: result.to_dict() for name, result in results.items()}}
        write_json(json_, {**report, "model": encoder.hash, "strategy": strategy, "k": k})
        closing += f"; metrics in {json_}"
    say(closing)


def _checked(margin: str, strategy: str) -> list[str]:
    from mining.checks import check_names

    margins = list(dict.fromkeys(name.strip() for name in margin.split(",")))
    try:
        for name in margins:
            check_names(name, strategy)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return margins


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
