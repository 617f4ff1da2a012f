"""``bitext evaluate tatoeba``: error of the nearest neighbour among aligned sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from pipelines.cli.evaluate.output import refuse_inputs, show_table, write_json
from pipelines.cli.say import say

if TYPE_CHECKING:
    from mining.evaluation.tatoeba import TatoebaResult

TATOEBA_HELP = """Error rate of finding the translation as the nearest neighbour by cosine, in both directions.

A folder stands for all sets in it and a file for its set, if they are named like `tatoeba.deu-eng.deu` and
`tatoeba.deu-eng.eng`. Any other file is a bitext: two plain text files aligned by line are one set, a file of another
format is one by itself. A neighbour with the same text as the right one is right; a row that cannot be encoded is an
error in both directions.

Examples:

    bitext evaluate tatoeba --model model LASER/data/tatoeba/v1

    bitext evaluate tatoeba --model model tatoeba.deu-eng.* tatoeba.fra-eng.* --json tatoeba.json

    bitext evaluate tatoeba --model model dev.tsv --columns source,target
"""


def tatoeba(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Folders, files named as above, or bitexts.")],
    model: Model = None,
    format: Annotated[str | None, typer.Option(help="Format of the files; names play no part then.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of TSV files, for example source,target.")] = None,
    source: Annotated[str | None, typer.Option(help="Name of the source column or field; TMX: language.")] = None,
    target: Annotated[str | None, typer.Option(help="Name of the target column or field; TMX: language.")] = None,
    invalid_utf8: Annotated[str | None, typer.Option(help="strict, replace or skip [strict].")] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dim: Dim = None,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    threads: Threads = 0,
    json_: Json = None,
) -> None:
    from mining.evaluation.tatoeba import find_aligned, read_aligned, tatoeba_error

    options: dict[str, Any] = {"format": format, "source": source, "target": target, "invalid_utf8": invalid_utf8}
    options["columns"] = [name.strip() for name in columns.split(",")] if columns else None
    sets = find_aligned(paths, options)
    refuse_inputs(json_, *(path for spec in sets.values() for path in spec.paths))
    encoder, target_encoder = load_sides(model, device, dim, dtype, (source_language, target_language))
    results = {}
    for name, spec in sets.items():
        pairs = read_aligned(name, spec)
        results[name] = tatoeba_error(
            encoder, pairs.source, pairs.target, target_encoder=target_encoder, threads=threads
        )
    report = _report(results, encoder.hash)
    _show(results, report["mean"])
    closing = f"mean error {report['mean']['error']:.2f}% over {len(results)} set{'s' if len(results) > 1 else ''}"
    if json_ is not None:
        write_json(json_, report)
        closing += f"; metrics in {json_}"
    say(closing)


def _report(results: dict[str, TatoebaResult], model_hash: str) -> dict[str, Any]:
    count = len(results)
    mean = {
        "backward": round(sum(result.backward_error for result in results.values()) / count, 4),
        "error": round(sum(result.error for result in results.values()) / count, 4),
        "forward": round(sum(result.forward_error for result in results.values()) / count, 4),
    }
    return {"mean": mean, "model": model_hash, "sets": {name: result.to_dict() for name, result in results.items()}}


def _show(results: dict[str, TatoebaResult], mean: dict[str, float]) -> None:
    header = ["set", "pairs", "error →", "error ←", "mean", "equal text", "tied", "not encoded"]
    rows = []
    for name, result in results.items():
        errors = [f"{value:.2f}" for value in (result.forward_error, result.backward_error, result.error)]
        sides = result.forward, result.backward
        counts = ["/".join(str(getattr(side, key)) for side in sides) for key in ("equal_text", "tied")]
        rows.append([name, str(result.pairs), *errors, *counts, str(result.unencoded)])
    if len(results) > 1:
        rows.append(["mean", "", *(f"{mean[key]:.2f}" for key in ("forward", "backward", "error")), "", "", ""])
    show_table("error in percent, source to target (→) and back (←)", header, rows)
