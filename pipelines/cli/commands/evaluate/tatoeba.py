"""``bitext evaluate tatoeba``: error of the nearest neighbour among aligned sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.cli.commands.evaluate import EVALUATIONS
from pipelines.cli.options import Call, command
from pipelines.cli.say import check_json, closing, show_table

if TYPE_CHECKING:
    from mining.config.evaluate import TatoebaConfig
    from mining.evaluation.tatoeba import TatoebaResult


@EVALUATIONS.register("tatoeba")
@command(
    "mining.config.evaluate:TatoebaConfig",
    "evaluate tatoeba --model model LASER/data/tatoeba/v1",
    "evaluate tatoeba --model model tatoeba.deu-eng.* tatoeba.fra-eng.* --json tatoeba.json",
    "evaluate tatoeba --model model dev.tsv --columns source,target",
    file=None,
)
def tatoeba(settings: TatoebaConfig, call: Call) -> None:
    """Error rate of finding the translation as the nearest neighbour, in both directions.

    A folder stands for all sets in it and a file for its set, if they are named like
    `tatoeba.deu-eng.deu` and `tatoeba.deu-eng.eng`. Any other file is a bitext: two plain text
    files aligned by line are one set, a file of another format is one by itself. A neighbour with
    the same text as the right one is right; a row that cannot be encoded is an error in both
    directions.
    """
    from mining.encoder.load import load_encoders
    from mining.evaluation.tatoeba import find_aligned, read_aligned, tatoeba_error

    names = ("format", "columns", "source", "target", "invalid_utf8")
    sets = find_aligned(settings.paths, {name: getattr(settings, name) for name in names})
    check_json(settings.json_file, *(path for spec in sets.values() for path in spec.paths))
    encoder, target_encoder = load_encoders(settings, settings.source_language, settings.target_language)
    results = {}
    for name, spec in sets.items():
        pairs = read_aligned(name, spec)
        results[name] = tatoeba_error(
            encoder, pairs.source, pairs.target, target_encoder=target_encoder, threads=settings.threads
        )
    report = _report(results, encoder.hash)
    _show(results, report["mean"])
    plural = "s" if len(results) > 1 else ""
    line = f"mean error {report['mean']['error']:.2f}% over {len(results)} set{plural}"
    closing(line, settings.json_file, report)


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
