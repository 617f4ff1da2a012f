"""``bitext train``: learn a sentence encoder from bitexts or from prepared pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.commands import COMMANDS
from pipelines.cli.commands.prepare import describe as describe_preparing
from pipelines.cli.commands.prepare import domain_options, with_bitexts
from pipelines.cli.options import Call, command
from pipelines.cli.say import columns, say
from pipelines.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from mining.config.base import Settings
    from mining.config.train import TrainConfig
    from mining.training import Progress
    from mining.training.data import PreparedPairs


def _one_source(data: Mapping[str, Any], call: Call, model: type[Settings]) -> dict[str, Any]:
    """The settings of the file and the flags; the flag of a bitext or of prepared pairs replaces
    what the file says of either."""
    from mining.config.data import DataConfig

    if "prepared" in call.flags:
        # What the file says of the data was said of its own bitext.
        data = {key: value for key, value in data.items() if key == "seed" or key not in DataConfig.fields()}
    elif "bitext.path" in call.flags:
        data = {key: value for key, value in data.items() if key != "prepared"}
    return with_bitexts(data, call, model)


@COMMANDS.register("train")
@command(
    "mining.config.train:TrainConfig",
    "train --bitext pairs.tsv.xz --columns source,target --model model-en-de --minutes 10",
    "train --config configs/train-en-de.yaml --bitext corpus/en-de.tsv.xz --model model-en-de",
    "train --prepared prepared-en-de --languages en,de --model model-en-de --objective softmax "
    "--batch 1024 --learning-rate 0.005",
    "train --bitext gettext:django:de --model model-ui --vocabulary 4000 --dim 100 --epochs 20 --report",
    merge=_one_source,
    extras=[
        *domain_options(),
        click.Option(["--report"], is_flag=True, help="Print how many tokens the two languages have in common."),
    ],
)
def train(settings: TrainConfig, call: Call) -> None:
    """Train a sentence encoder: by default an average of sentencepiece vectors.

    The model folder holds all that `encode`, `score` and `mine` need, and the curves of the
    training. Killed at any moment, the same command goes on from the last checkpoint. Several
    bitexts, rules for domains and a development set are given in a file.
    """
    from mining.devices import keep_freed_memory
    from mining.training import is_trained
    from mining.training import train as run_training

    if is_trained(settings) and not settings.overwrite:
        say(f"already trained with this configuration and bitext: nothing to do, the model is in {settings.model}")
        return
    keep_freed_memory()
    overlap = _overlap_printer(settings.languages) if call.extras["report"] else None
    with progress(1.0, plain=30) as show:
        folder = run_training(settings, lambda now: show(describe(now), now.fraction, now.stage), overlap)
    _show_result(folder, settings)


def _show_result(folder: Path, settings: TrainConfig) -> None:
    """The closing lines: what was trained, from how much, and where it is."""
    from mining.encoder.model_folder import read_description

    description = read_description(folder)
    summary = description.training
    if (best := summary["development"]) and settings.development is not None:
        say(f"development: {settings.development.metric} {best['best']:.2f} at step {best['step']}, kept as the model")
    loss = f", loss {summary['loss']:.4f}" if summary["steps"] else ""
    say(
        f"{summary['pairs']} pairs, {summary['steps']} steps{loss}; "
        f"{description.dim} dimensions, model {description.hash} in {folder}"
    )


def _overlap_printer(languages: list[str]) -> Callable[[PreparedPairs], None]:
    """Prints which share of its units each language has in common with the other."""

    def show(pairs: PreparedPairs) -> None:
        for line in overlap_table(pairs, languages):
            say(line)

    return show


_OVERLAP = (
    "languages",
    "units",
    "pairs",
    "source types",
    "target types",
    "common",
    "% of source",
    "% of target",
    "% of source tokens",
    "% of target tokens",
)


def overlap_table(pairs: PreparedPairs, languages: list[str]) -> list[str]:
    """A line for each language pair and kind of units; `languages` name a pair that the bitext does
    not name."""
    from mining.training.data import token_overlap

    rows = [list(_OVERLAP)]
    named = "-".join(languages) if len(languages) == 2 else "all"
    for one in token_overlap(pairs):
        shares = (one.source_share, one.target_share, one.source_tokens_shared, one.target_tokens_shared)
        counts = (one.pairs, one.source_types, one.target_types, one.shared_types)
        name = named if one.languages == "all" else one.languages
        numbers = [*(f"{count:,}" for count in counts), *(f"{100 * share:.1f}" for share in shares)]
        rows.append([name, one.tokens, *numbers])
    return columns(rows, texts=2)


def describe(progress: Progress) -> str:
    """One line on the progress of a training."""
    if progress.stage != "vectors":
        return describe_preparing(progress.stage, progress.pairs)
    development = ""
    if progress.development is not None:
        development = f"development {progress.development:.2f} (best {progress.best:.2f})  "
    left = int(progress.seconds_left) if math.isfinite(progress.seconds_left) else 0
    return (
        f"epoch {progress.epoch + 1}  loss {progress.loss:.4f}  {progress.pairs_per_second:,.0f} pairs/s  "
        f"mega-batch {progress.mega_batch}  {development}{left // 60}:{left % 60:02d} left"
    )
