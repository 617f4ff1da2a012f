"""``bitext evaluate sts``: correlation of cosines with human judgements of similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.cli.commands.evaluate import EVALUATIONS
from pipelines.cli.options import Call, command
from pipelines.cli.say import check_json, closing, show_table

if TYPE_CHECKING:
    from mining.config.evaluate import StsConfig
    from mining.evaluation.sts import StsGroup, StsResult


@EVALUATIONS.register("sts")
@command(
    "mining.config.evaluate:StsConfig",
    "evaluate sts --model model sts/",
    "evaluate sts --model model sts/STS12.*.tsv sts/STSbenchmark.dev.tsv --json sts.json",
    file=None,
)
def sts(settings: StsConfig, call: Call) -> None:
    """Pearson and Spearman correlation of cosine and judgement, per data set and year.

    They are given times 100. A file is one data set with lines of judgement, tab, sentence, tab,
    sentence; a folder stands for its .tsv files. What stands before the first dot of a name is its
    group: `STS12.MSRpar.tsv` belongs to STS12. Where all cosines or all judgements are equal there
    is no correlation ("undefined"), and the means leave the set out. A pair that cannot be encoded
    has similarity 0.
    """
    from mining.encoder.load import load_encoders
    from mining.evaluation.sts import find_sts, read_sts, sts_correlations

    files = find_sts(settings.paths)
    check_json(settings.json_file, *files)
    datasets = [read_sts(path) for path in files]
    (encoder,) = load_encoders(settings, settings.language)
    result = sts_correlations(encoder, datasets, threads=settings.threads)
    _show(result)
    line = f"mean Pearson {_number(result.all.pearson)} over {_sets(result.all)}"
    closing(line, settings.json_file, {**result.to_dict(), "model": encoder.hash})


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
