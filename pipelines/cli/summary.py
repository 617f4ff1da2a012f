"""What a run says at its end: the cost of each stage, warnings, and one line about the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.mine import MineResult

#: Below this mean cosine between a sentence and its neighbours, ratios divide by little and say
#: little.
LOW_MEAN = 0.05


def show_report(result: MineResult) -> None:
    """A table of the stages and the warnings, on standard error."""
    from rich.table import Table

    from mining.console import SafeConsole

    console = SafeConsole(stderr=True)
    table = Table(title="stages", title_justify="left")
    for name in ("stage", "steps", "done before", "seconds", "peak memory"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for row in result.report:
        cells = [row["steps"], row["skipped"], f"{row['seconds']:.1f}", f"{row['peak_memory'] / 2**20:,.0f} MiB"]
        table.add_row(row["stage"], *map(str, cells))
    console.print(table)
    for side in ("source", "target"):
        facts = result.metrics[side]
        unused = ", ".join(f"{count:,} {reason}" for reason, count in facts["unused"].items()) or "none"
        mended = f"; {facts['replaced']:,} with U+FFFD for bytes that are no UTF-8" if facts["replaced"] else ""
        console.print(f"{side}: {facts['rows']:,} rows, {facts['in_pairs']:,} in pairs; unused: {unused}{mended}")
        if facts["mean_neighbour_cosine"] < LOW_MEAN:
            console.print(
                f"warning: the {side} sentences have a mean cosine of {facts['mean_neighbour_cosine']} to their "
                "nearest neighbours: the model may not know this language, and ratio margins are unstable",
                style="yellow",
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
