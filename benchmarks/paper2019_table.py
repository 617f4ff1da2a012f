"""The table of `paper2019.py`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from paper2019_rows import NOTES, Row
from report_tables import MISSING, markdown, number

YEARS = ("STS12", "STS13", "STS14")
HEADER = [
    "",
    "pairs",
    "seen, M",
    "F1, ratio",
    "F1, cosine",
    "Tatoeba",
    "STS",
    *YEARS,
    "pairs/s",
    "sentences/s",
    "published",
]


def write_table(measured: list[tuple[Row, dict[str, Any]]], settings: dict[str, Any]) -> str:
    """The whole document: how it was made, the table, the notes."""
    rows: list[list[str]] = []
    for group, members in groupby(measured, key=lambda item: item[0].group):
        rows.append([f"**{group}**", *[""] * (len(HEADER) - 1)])
        rows += [table_row(row, facts) for row, facts in members]
    notes = "\n".join(f"- {note}" for note in NOTES)
    return (
        f"{introduction(measured, settings)}\n\n{markdown(HEADER, rows)}\nPublished figures, on other data:\n{notes}\n"
    )


def introduction(measured: list[tuple[Row, dict[str, Any]]], settings: dict[str, Any]) -> str:
    """What the figures are."""
    task = "de-en.sample" if settings["quick"] else "de-en.training"
    sentences = [facts["training"]["pairs"] for row, facts in measured if row.data == "sentences"]
    count = f"{max(sentences):,} sentence pairs" if sentences else "sentence pairs"
    return (
        "# The comparisons of Wieting et al. 2019\n\n"
        f"Printed by `python benchmarks/paper2019.py`: English-German, {count} without Tatoeba and "
        "dictionary, after the filters (if fewer than asked for, the bitext has no more), and as many "
        "phrases of the dictionary. Each row changes one thing of the recipe: SP of 20,000 pieces, 300 "
        "dimensions, margin 0.4, batches of 128, mega-batches growing to 60 by one each 150, Adam 0.001 (on "
        "the rows of a step), no dropout. All see the same number of pairs (column `seen`, in millions), "
        "except BLSTM-SP and the row above it: these see fewer, each once.\n\n"
        f"`F1` is that of mining `{task}` in percent, threshold tuned on all gold pairs, after the slash "
        "held out by five folds; `Tatoeba` the mean error of both directions in percent; `STS` the mean "
        "Pearson's r x 100 over all English data sets, then by year (2013 without SMT). Speeds, in training "
        "and in encoding with tokenisation, are those of the machine that made the table."
    )


def table_row(row: Row, facts: dict[str, Any]) -> list[str]:
    """The cells of a row."""
    training, sts = facts["training"], facts["sts"]
    tatoeba = next(iter(facts["tatoeba"].values()))["error"] if facts["tatoeba"] else None
    trained = training["steps"] > 0
    return [
        f"{row.title} (`{row.name}`)",
        f"{training['pairs']:,}" if trained else MISSING,
        number(training["pairs_seen"] / 1e6) if trained else MISSING,
        *(f1_cell(facts["mining"][margin]) for margin in ("ratio", "absolute")),
        number(tatoeba),
        number(sts["all"]["pearson"], digits=1),
        *(number(sts["groups"].get(year, {}).get("pearson"), digits=1) for year in YEARS),
        thousands(training["pairs_per_second"]),
        thousands(facts["sentences_per_second"]),
        row.published or MISSING,
    ]


def f1_cell(entry: dict[str, Any]) -> str:
    """F1 tuned on all gold, and held out."""
    return f"{number(entry['f1'], 100, 1)} / {number(entry['held_out_f1'], 100, 1)}"


def thousands(value: float | None) -> str:
    """A speed."""
    return MISSING if value is None else f"{value:,.0f}"
