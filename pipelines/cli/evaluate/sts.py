"""``bitext evaluate sts``: correlation of cosines with human judgements of similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.evaluate.encoders import Device, Dim, Dtype, Json, Language, Model, Threads, load_sides
from pipelines.cli.evaluate.output import refuse_inputs, show_table, write_json
from pipelines.cli.say import say

if TYPE_CHECKING:
    from mining.evaluation.sts import StsGroup, StsResult

STS_HELP = """Pearson and Spearman correlation of cosine and judgement, times 100, per data set and per year.

A file is one data set with lines of judgement, tab, sentence, tab, sentence; a folder stands for its .tsv files. What
stands before the first dot of a name is its group: `STS12.MSRpar.tsv` belongs to STS12. Where all cosines or all
judgements are equal there is no correlation ("undefined"), and the means leave the set out. A pair that cannot be
encoded has similarity 0.

Examples:

    bitext evaluate sts --model model sts/

    bitext evaluate sts --model model sts/STS12.*.tsv sts/STSbenchmark.dev.tsv --json sts.json
"""


def sts(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Data sets, or folders of them.")],
    model: Model = None,
    language: Language = None,
    dim: Dim = None,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    threads: Threads = 0,
    json_: Json = None,
) -> None:
    from mining.evaluation.sts import find_sts, read_sts, sts_correlations

    files = find_sts(paths)
    refuse_inputs(json_, *files)
    datasets = [read_sts(path) for path in files]
    encoder, _ = load_sides(model, device, dim, dtype, (language, language))
    result = sts_correlations(encoder, datasets, threads=threads)
    _show(result)
    closing = f"mean Pearson {_number(result.all.pearson)} over {_sets(result.all)}"
    if json_ is not None:
        write_json(json_, {**result.to_dict(), "model": encoder.hash})
        closing += f"; metrics in {json_}"
    say(closing)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _sets(group: StsGroup) -> str:
    count = str(group.sets) if group.defined == group.sets else f"{group.defined} of {group.sets}"
    return f"{count} data set{'s' if group.sets != 1 else ''}"


def _show(result: StsResult) -> None:
    sets = [
        [score.name, str(score.pairs), _number(score.pearson), _number(score.spearman), str(score.unencoded)]
        for score in result.sets
    ]
    show_table("correlation, times 100", ["data set", "pairs", "Pearson", "Spearman", "not encoded"], sets)
    groups = []
    for group in [*result.groups, result.all]:
        values = group.pearson, group.weighted_pearson, group.spearman, group.weighted_spearman, group.concatenated
        count = str(group.sets) if group.defined == group.sets else f"{group.defined} of {group.sets}"
        groups.append([group.name, count, *map(_number, values)])
    header = ["group", "sets", "Pearson", "by pairs", "Spearman", "by pairs", "all pairs"]
    show_table("means of the data sets, plain and by pairs; Spearman of all pairs at once", header, groups)
