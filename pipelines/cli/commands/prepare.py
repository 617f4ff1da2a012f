"""``bitext prepare``: filter bitexts, learn the vocabulary and lay the pairs out on disk for
training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mining.errors import UsageError
from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, PanelOption, command
from pipelines.cli.say import columns, say, warn
from pipelines.progress import Show, progress

if TYPE_CHECKING:
    from mining.config.base import Settings
    from mining.config.data import PrepareConfig
    from mining.training.data import PreparedPairs

SHOWN_DOMAINS = 40
"""The table names so many domains, the largest; the others are added up in one line."""


def domain_options() -> list[click.Option]:
    """The flags that make rules for domains."""
    drop = "Leave out the domains of this pattern; repeat it for several."
    cap = "Most pairs of a domain, drawn at random, where no other rule fits it."
    made: list[click.Option] = [
        PanelOption("Domains", ["--drop"], multiple=True, metavar="PATTERN", help=drop),
        PanelOption("Domains", ["--cap"], metavar="INTEGER", help=cap),
    ]
    return made


def with_bitexts(data: Mapping[str, Any], call: Call, model: type[Settings]) -> dict[str, Any]:
    """The settings of the file and the flags; flags of the bitext go to the only one there is.

    Raises UsageError when the file names several bitexts that such a flag could mean. The rules of
    ``--drop`` stand before those of the file, and that of ``--cap`` after them.
    """
    from mining.config.base import override

    data = dict(data)
    ours = [key for key in call.flags if key.startswith("bitext.")]
    bitext = data.get("bitext")
    if ours and isinstance(bitext, list) and len(bitext) == 1:
        data["bitext"] = bitext[0]
    elif ours and isinstance(bitext, list) and any(isinstance(item, dict) for item in bitext):
        raise UsageError(
            f"bitext {call.command}: the configuration names {len(bitext)} bitexts, so {call.names[ours[0]]} is "
            "ambiguous: change it there"
        )
    data = override(data, call.flags, model)
    rules = data.get("domains") or []
    drop, cap = call.extras["drop"] or (), call.extras["cap"]
    if isinstance(rules, list) and (drop or cap is not None):
        last = [{"match": "*", "cap": cap}] if cap is not None else []
        data["domains"] = [*({"match": pattern, "drop": True} for pattern in drop), *rules, *last]
    return data


@COMMANDS.register("prepare")
@command(
    "mining.config.data:PrepareConfig",
    "prepare --bitext pairs.tsv.xz --columns source,target --min-tokens 3 --output prepared",
    "prepare --bitext en-de.tsv.xz --columns source,target,domain --domain domain --languages en,de "
    "--max-ratio 4 --drop 'tatoeba.*' --cap 20000 --output prepared-en-de",
    "prepare --bitext paraphrases.tsv.gz --columns source,target,score --score score --paraphrases "
    "--output prepared-paraphrases",
    "prepare --config configs/prepare.yaml --output prepared",
    merge=with_bitexts,
    extras=domain_options(),
    small=True,
)
def prepare(settings: PrepareConfig, call: Call) -> None:
    """Prepare bitexts for training: filter them, learn the vocabulary, write arrays of ids.

    Prints what was kept and dropped, by domain and reason. Killed at any moment, the same command
    takes up what was finished; run again after that it does nothing. Several bitexts, and rules for
    domains (cap, weight, drop), are given in a file.
    """
    from mining.training.data import is_prepared, open_prepared
    from mining.training.data import prepare as run_preparing

    output = Path(settings.output)
    _check_output(output)
    if not settings.overwrite and is_prepared(settings, output):
        pairs = open_prepared(output)
        say(f"already prepared with this configuration and input: nothing to do, {_summary(pairs)} in {output}")
        return
    with progress(plain=30) as show:
        report = reporter(show)
        pairs = run_preparing(settings, output, report, settings.threads, overwrite=settings.overwrite)
    for line in table(pairs):
        say(line)
    for warning in pairs.warnings:
        warn(warning)
    say(f"{_summary(pairs)} of {pairs.rows:,} rows in {output}")


def _check_output(output: Path) -> None:
    """Refuse a folder with anything in it that was not written by this command."""
    from mining.training.data import PARTIAL_FOLDER, PREPARED_FILE

    if not output.is_dir() or (output / PREPARED_FILE).is_file():
        return
    if not (output / PARTIAL_FOLDER).is_dir() and (foreign := sorted(path.name for path in output.iterdir())):
        raise UsageError(f"{output}: not empty (it holds {foreign[0]}); name another folder with --output")


def _summary(pairs: PreparedPairs) -> str:
    sizes = ", ".join(f"{unit.size:,} {unit.kind}" for unit in pairs.tokenizers)
    return f"{len(pairs):,} pairs, {sizes}"


def table(pairs: PreparedPairs) -> list[str]:
    """Rows kept and dropped, a line for each domain and a column for each reason that occurs."""
    domains = sorted(pairs.domains, key=lambda domain: (-domain.pairs, domain.name))
    reasons = list(pairs.dropped)
    lines = [["domain", "weight", "pairs", *reasons]]
    for domain in domains[:SHOWN_DOMAINS]:
        lines.append([domain.name, f"{domain.weight:g}", *_cells(domain.pairs, domain.dropped, reasons)])
    if others := domains[SHOWN_DOMAINS:]:
        dropped = {reason: sum(domain.dropped.get(reason, 0) for domain in others) for reason in reasons}
        lines.append([f"{len(others)} more", "", *_cells(sum(domain.pairs for domain in others), dropped, reasons)])
    lines.append(["all", "", *_cells(len(pairs), pairs.dropped, reasons)])
    return columns(lines)


def _cells(pairs: int, dropped: dict[str, int], reasons: list[str]) -> list[str]:
    return [f"{pairs:,}", *(f"{dropped[reason]:,}" if dropped.get(reason) else "-" for reason in reasons)]


_STAGES = {
    "reading": "reading and filtering",
    "vocabulary": "learning the vocabulary",
    "pieces": "splitting into tokens",
}


def describe(stage: str, pairs: int) -> str:
    """One line on the progress of preparing."""
    text = _STAGES.get(stage, stage)
    return f"{text}: {pairs:,} pairs" if pairs else text


def reporter(show: Show) -> Callable[[str, int], None]:
    """A function that shows a stage of preparing and the pairs it has seen."""
    return lambda stage, pairs: show(describe(stage, pairs), stage=stage)
