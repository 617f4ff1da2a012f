"""Markdown tables of the reports that `report.py` writes, with the published figures of
``published.json`` beside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Report = dict[str, Any]
PUBLISHED = Path(__file__).with_name("published.json")
#: Margins as the tables call them, best known first.
MARGIN_NAMES = {"ratio": "ratio margin", "distance": "distance margin", "absolute": "cosine"}
MISSING = "-"


def number(value: float | None, scale: float = 1.0, digits: int = 2) -> str:
    """A figure, or a dash where there is none."""
    return MISSING if value is None else f"{scale * value:.{digits}f}"


def markdown(header: list[str], rows: Iterable[list[str]], numbers_from: int = 1) -> str:
    """A Markdown table; columns from `numbers_from` on are flush right."""
    rule = ["---" if i < numbers_from else "--:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows]) + "\n"


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct names, sorted."""
    return sorted(set(names))


def published_label(row: dict[str, Any]) -> str:
    """Name and source of a published row."""
    return f"*{row['model']}* ({row['source']})"


def models_table(reports: list[Report]) -> str:
    """What was measured."""
    rows = []
    for report in reports:
        options = ", ".join(f"{k} {v}" for k, v in report["options"].items() if k != "device")
        speed = report.get("sentences_per_second")
        languages = " ".join(report["languages"]) or "all"
        rows.append(
            [report["name"], languages, str(report["dim"]), options or MISSING, number(speed, digits=0), report["hash"]]
        )
    header = ["model", "languages", "dimensions", "loaded with", "sentences/s", "hash"]
    return markdown(header, rows, numbers_from=2)


def mining_table(reports: list[Report], margin: str, published: dict[str, Any] | None) -> str:
    """F1 by language: tuned on all gold, and the mean of the held-out folds in parentheses."""
    languages = in_order(language for report in reports for language in report["mining"])
    rows = []
    for report in reports:
        cells = []
        for language in languages:
            entry = report["mining"].get(language, {}).get(margin)
            held_out = f" ({number(entry['held_out_f1'], 100)})" if entry else ""
            cells.append(number(entry["f1"] if entry else None, 100) + held_out)
        rows.append([report["name"], *cells])
    for row in published["rows"] if published else []:
        if set(row["values"]) & set(languages):
            values = [number(row["values"].get(language)) for language in languages]
            rows.append([published_label(row), *values])
    return markdown(["model", *(f"{language}-en" for language in languages)], rows)


def details_table(reports: list[Report]) -> str:
    """Precision, recall and threshold of every mining result."""
    rows = []
    for report in reports:
        for language, margins in report["mining"].items():
            for margin, name in MARGIN_NAMES.items():
                entry = margins[margin]
                shares = [number(entry[key], 100) for key in ("precision", "recall", "f1", "held_out_f1")]
                rows.append([report["name"], f"{language}-en", name, *shares, number(entry["threshold"], digits=4)])
    header = ["model", "task", "score", "precision", "recall", "F1", "F1, five folds", "threshold"]
    return markdown(header, rows, numbers_from=3)


def domain_tables(reports: list[Report], margin: str = "ratio") -> str:
    """Recall of each gold domain, a table a language."""
    parts = []
    for language in in_order(language for report in reports for language in report["mining"]):
        measured = [report for report in reports if language in report["mining"]]
        found = [report["mining"][language][margin]["domains"] for report in measured]
        rows = []
        for domain in in_order(name for domains in found for name in domains):
            gold = next(domains[domain]["gold"] for domains in found if domain in domains)
            rows.append([domain, str(gold), *(number(domains[domain]["recall"], 100, 1) for domains in found)])
        header = [f"{language}-en", "gold pairs", *(report["name"] for report in measured)]
        parts.append(markdown(header, rows))
    return "\n".join(parts)


def tatoeba_table(reports: list[Report], published: dict[str, Any]) -> str:
    """Error by language: mean of both directions, and each of them."""
    sets = in_order(name for report in reports for name in report["tatoeba"])
    rows = []
    for report in reports:
        cells = []
        for name in sets:
            entry = report["tatoeba"].get(name)
            sides = f" ({number(entry['forward']['error'])} / {number(entry['backward']['error'])})" if entry else ""
            cells.append(number(entry["error"] if entry else None) + sides)
        rows.append([report["name"], *cells])
    for row in published["rows"]:
        rows.append([published_label(row), *(number(row["values"].get(name.split("-")[0])) for name in sets)])
    return markdown(["model", *sets], rows)


def years_table(reports: list[Report], published: dict[str, Any]) -> str:
    """Mean Pearson of each group, and Spearman of its concatenation after a slash."""
    groups = in_order(name for report in reports for name in report["sts"]["groups"])
    rows = []
    for report in reports:
        entries = [report["sts"]["groups"].get(name) for name in groups] + [report["sts"]["all"]]
        cells = [f"{number(e['pearson'])} / {number(e['concatenated'])}" if e else MISSING for e in entries]
        rows.append([report["name"], *cells])
    for row in published["rows"]:
        spearman = row.get("spearman", {})
        pairs = [(row["pearson"].get(name), spearman.get(name)) for name in groups]
        cells = [MISSING if r is None else f"{number(r)} / {number(rho)}" for r, rho in pairs]
        rows.append([published_label(row), *cells, MISSING])
    return markdown(["model", *groups, "all sets"], rows)


def sets_table(reports: list[Report]) -> str:
    """Pearson of each data set; an undefined one is a dash."""
    names = in_order(name for report in reports for name in report["sts"]["sets"])
    rows = []
    for name in names:
        entries = [report["sts"]["sets"].get(name, {}) for report in reports]
        rows.append([name, *(number(entry.get("pearson")) for entry in entries)])
    return markdown(["data set", *(report["name"] for report in reports)], rows)


def published_sets_table(published: dict[str, Any]) -> str:
    """Published Pearson of single data sets."""
    names = in_order(name for row in published["rows"] for name in row["values"])
    rows = [[published_label(row), *(number(row["values"].get(name)) for name in names)] for row in published["rows"]]
    return markdown(["published", *names], rows)


def write_tables(reports: list[Report]) -> str:
    """The whole document."""
    published = json.loads(PUBLISHED.read_text("utf-8"))
    parts = [
        "# Models, measured\n\nPrinted by `python benchmarks/report.py --tables REPORT.json ...`, each report made by "
        "`python benchmarks/report.py --model MODEL --output REPORT.json`. Names in italics are published figures.\n",
        models_table(reports),
        "## Mining\n\nF1 on the BUCC-like tasks, strategy `max`, threshold tuned on all gold pairs; in parentheses the "
        "mean of five held-out folds, each with the threshold tuned on the other four.\n",
    ]
    for margin, name in MARGIN_NAMES.items():
        title = f"### By {name}\n"
        parts += [title, mining_table(reports, margin, published["mining"] if margin == "ratio" else None)]
        if margin == "ratio":
            parts.append(published["mining"]["note"] + "\n")
    parts += ["### Precision, recall, thresholds\n", details_table(reports)]
    parts += ["### Recall by gold domain, ratio margin\n", domain_tables(reports)]
    parts += [
        "## Tatoeba\n\nError in percent, nearest neighbour by cosine: mean of both directions (into English / from "
        "English).\n",
        tatoeba_table(reports, published["tatoeba"]),
        published["tatoeba"]["note"] + "\n",
        "## Semantic textual similarity\n\nBy year: mean of Pearson's r over its data sets / Spearman's rho over all "
        "its pairs, times 100.\n",
        years_table(reports, published["sts_years"]),
        published["sts_years"]["note"] + "\n",
        "Pearson's r by data set, times 100:\n",
        sets_table(reports),
        published_sets_table(published["sts_sets"]),
        published["sts_sets"]["note"] + "\n",
    ]
    return "\n".join(parts)
