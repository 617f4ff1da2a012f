"""``bitext mine``: from two piles of sentences to scored, aligned pairs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

from mining.errors import UsageError
from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, command, lay_over
from pipelines.cli.say import say, show_table, warn

if TYPE_CHECKING:
    from mining.config.base import Settings
    from mining.config.mine import MineConfig
    from mining.config.search import SearchSettings
    from pipelines.mine import MineResult

#: Below this mean cosine between a sentence and its neighbours, ratios divide by little and say
#: little.
LOW_MEAN = 0.05


def chosen_method(data: dict[str, Any], call: Call, model: type[Settings]) -> dict[str, Any]:
    """The settings of the file and the flags; the flag of an index asks for the search by FAISS."""
    if "search.index" in call.flags:
        call.flags.setdefault("search.method", "faiss")
    return lay_over(data, call, model)


@COMMANDS.register("mine")
@command(
    "mining.config.mine:MineConfig",
    "mine --source news.de.txt --target news.en.txt --model model --output run",
    "mine --source de.tsv --target en.tsv --columns id,text --gold gold.tsv --output run",
    "mine --config configs/bucc.yaml --margin distance --strategy intersection",
    merge=chosen_method,
    extras=[click.Option(["--quiet/--no-quiet"], help="No progress.")],
)
def mine(settings: MineConfig, call: Call) -> None:
    """Find the pairs of sentences that translate each other, score them, and write them out.

    A run that was stopped goes on where it was when the same command is given again.
    """
    from pipelines.mine import run_mine

    _check_method(settings.search, call)
    quiet = bool(call.extras["quiet"])
    if quiet:
        logging.getLogger("mining.compiled.cache").setLevel(logging.WARNING)
    result = run_mine(settings, quiet)
    if not quiet:
        show_report(result)
    for line in result.changed:
        warn(f"{line} since the run began: the result is of what was there then")
    say(closing_line(result))


def _check_method(search: SearchSettings, call: Call) -> None:
    """Raise UsageError for a flag that only other search methods look at."""
    for key in call.flags:
        group, _, name = key.partition(".")
        owners = search.owners(name) if group == "search" else []
        if owners and search.method not in owners:
            raise UsageError(
                f"{call.names[key]} is for --method {' or '.join(owners)}, and the method is {search.method}: "
                "leave one out"
            )


def show_report(result: MineResult) -> None:
    """A table of the stages and the warnings, on standard error."""
    rows = []
    for row in result.report:
        memory = f"{row.peak_memory / 2**20:,.0f} MiB"
        rows.append([row.stage, str(row.steps), str(row.skipped), f"{row.seconds:.1f}", memory])
    show_table("stages", ["stage", "steps", "done before", "seconds", "peak memory"], rows, err=True)
    for side in ("source", "target"):
        facts = result.metrics[side]
        unused = ", ".join(f"{count:,} {reason}" for reason, count in facts["unused"].items()) or "none"
        mended = f"; {facts['replaced']:,} with U+FFFD for bytes that are no UTF-8" if facts["replaced"] else ""
        say(f"{side}: {facts['rows']:,} rows, {facts['in_pairs']:,} in pairs; unused: {unused}{mended}", err=True)
        if facts["mean_neighbour_cosine"] < LOW_MEAN:
            warn(
                f"the {side} sentences have a mean cosine of {facts['mean_neighbour_cosine']} to their "
                "nearest neighbours: the model may not know this language, and ratio margins are unstable"
            )


def closing_line(result: MineResult) -> str:
    """How many pairs, at what threshold, where; with gold, how good."""
    if result.threshold is None:
        limit = "no threshold"
    else:
        limit = f"threshold {result.threshold:.7f} ({result.metrics['threshold_from']})"
    bucc = result.metrics.get("bucc")
    quality = ""
    if bucc:
        shares = ", ".join(
            f"{name} {100 * bucc[key]:.2f}%" for name, key in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
        )
        quality = f"; {shares}"
    return f"{result.pairs:,} pairs at {limit}{quality}: {result.folder / 'pairs.tsv'}"
