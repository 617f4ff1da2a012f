"""``bitext train``: learn a sentence encoder from bitexts or from prepared pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.bitexts import merge, names
from pipelines.cli.prepare import describe as describe_preparing
from pipelines.cli.say import say

if TYPE_CHECKING:
    from mining.training import Progress, TrainConfig
    from mining.training.data import PreparedPairs

_MANY = "several files: repeat the option"
_DATA, _ENCODER, _OBJECTIVE, _COURSE = "Data", "Encoder", "Objective", "Course of the training"


def _option(group: str, text: str, *forms: str) -> Any:
    return typer.Option(*forms, help=text, rich_help_panel=group)


def train(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML of the settings; flags override it.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Folder to write the model to.")] = None,
    bitext: Annotated[list[str] | None, _option(_DATA, f"Bitext: path, glob or gettext:NAME:LANG ({_MANY}).")] = None,
    form: Annotated[str | None, _option(_DATA, "auto, text, tsv, jsonl, parquet, tmx or gettext.", "--format")] = None,
    columns: Annotated[str | None, _option(_DATA, "Names of the TSV columns in their order, comma between.")] = None,
    source: Annotated[str | None, _option(_DATA, "Column, field, tmx language or msgid/msgstr of the source.")] = None,
    target: Annotated[str | None, _option(_DATA, "The same of the target.")] = None,
    domain: Annotated[str | None, _option(_DATA, "Column or field with the domain (else each file is one).")] = None,
    prepared: Annotated[
        str | None, _option(_DATA, "Folder written by `bitext prepare`, in place of a bitext and all that decides it.")
    ] = None,
    languages: Annotated[str | None, _option(_DATA, "Language codes kept with the model, comma between.")] = None,
    units: Annotated[
        str | None, _option(_DATA, "pieces (default), words, trigrams, ngrams; several: comma between.")
    ] = None,
    vocabulary: Annotated[int | None, _option(_DATA, "Tokens of the shared vocabulary (20000).")] = None,
    types: Annotated[int | None, _option(_DATA, "Most words, trigrams or n-grams (200000).")] = None,
    vocabulary_sentences: Annotated[int | None, _option(_DATA, "Sentences it is learnt from (500000).")] = None,
    lowercase: Annotated[
        bool | None, _option(_DATA, "Fold case inside the pieces (on).", "--lowercase/--keep-case")
    ] = None,
    min_pieces: Annotated[int | None, _option(_DATA, "Leave out pairs with a shorter side (1).")] = None,
    max_pieces: Annotated[int | None, _option(_DATA, "Cut longer sentences in training (100).")] = None,
    report: Annotated[
        bool, _option(_DATA, "Print how many pieces the two languages have in common.", "--report")
    ] = False,
    encoder: Annotated[str | None, _option(_ENCODER, "average (default), charagram or lstm.")] = None,
    dim: Annotated[int | None, _option(_ENCODER, "Dimension of the units' vectors (300).")] = None,
    combine: Annotated[str | None, _option(_ENCODER, "sum (default) or concatenate the averages of the units.")] = None,
    projection: Annotated[int | None, _option(_ENCODER, "Learn a linear map of the average to this length.")] = None,
    activation: Annotated[str | None, _option(_ENCODER, "tanh (default) or linear, of charagram.")] = None,
    hidden: Annotated[int | None, _option(_ENCODER, "States of each direction of the lstm (150).")] = None,
    shared: Annotated[
        bool | None, _option(_ENCODER, "One set of vectors for both languages (on).", "--shared/--apart")
    ] = None,
    initial_vectors: Annotated[str | None, _option(_ENCODER, "Text file of word vectors to start from.")] = None,
    pull: Annotated[float | None, _option(_ENCODER, "Weight of the distance from the initial vectors (0).")] = None,
    l2: Annotated[float | None, _option(_ENCODER, "Weight of the length of the vectors (0).", "--l2")] = None,
    objective: Annotated[
        str | None, _option(_OBJECTIVE, "margin (default), softmax, j_bi, or none: the random encoder.")
    ] = None,
    delta: Annotated[float | None, _option(_OBJECTIVE, "Margin of the objectives margin and j_bi (0.4).")] = None,
    scale: Annotated[float | None, _option(_OBJECTIVE, "Inverse temperature of softmax (20).")] = None,
    additive_margin: Annotated[
        float | None, _option(_OBJECTIVE, "Taken from the translation's cosine by softmax (0).")
    ] = None,
    negatives: Annotated[
        int | None, _option(_OBJECTIVE, "Negatives a side from the mega-batch (softmax 0, j_bi 10).")
    ] = None,
    negative_choice: Annotated[
        str | None, _option(_OBJECTIVE, "max (the hardest, default), mix (half of them random) or random.")
    ] = None,
    negative_pool: Annotated[
        str | None, _option(_OBJECTIVE, "bilingual (default) or monolingual (both sides, for paraphrases).")
    ] = None,
    batch: Annotated[int | None, _option(_OBJECTIVE, "Pairs in a mini-batch (128).")] = None,
    mega_batch: Annotated[
        int | None, _option(_OBJECTIVE, "Most mini-batches searched for hard negatives (60).")
    ] = None,
    anneal: Annotated[
        int | None, _option(_OBJECTIVE, "Mini-batches after which the mega-batch grows by one (150).")
    ] = None,
    learning_rate: Annotated[float | None, _option(_COURSE, "Adam's step size (0.001).")] = None,
    schedule: Annotated[str | None, _option(_COURSE, "linear (falls to zero, default) or constant.")] = None,
    dropout: Annotated[float | None, _option(_COURSE, "Probability of leaving out a unit (0).")] = None,
    scramble: Annotated[float | None, _option(_COURSE, "Share of sentences in random order, for the lstm (0).")] = None,
    grad_clip: Annotated[float | None, _option(_COURSE, "Largest gradient norm (off).")] = None,
    epochs: Annotated[int | None, _option(_COURSE, "Passes over the bitext (10 unless --minutes).")] = None,
    minutes: Annotated[float | None, _option(_COURSE, "Wall-clock budget of the whole training.")] = None,
    seed: Annotated[int | None, _option(_COURSE, "Seed of all random choices (1).")] = None,
    threads: Annotated[int | None, _option(_COURSE, "0: all cores.")] = None,
    device: Annotated[str | None, _option(_COURSE, "cpu (default) or cuda.")] = None,
    checkpoint_minutes: Annotated[float | None, _option(_COURSE, "Time between checkpoints (1).")] = None,
    keep_checkpoint: Annotated[
        bool | None, _option(_COURSE, "Keep the checkpoint after success.", "--keep-checkpoint")
    ] = None,
    tensorboard: Annotated[bool | None, _option(_COURSE, "Write TensorBoard's event files.", "--tensorboard")] = None,
    overwrite: Annotated[
        bool | None, _option(_COURSE, "Replace a model of another configuration.", "--overwrite")
    ] = None,
) -> None:
    """Train a sentence encoder: by default an average of sentencepiece vectors, shared by both
    languages.

    The model folder holds all that `encode`, `score` and `mine` need, and the curves of the
    training. Killed at any moment, the same command goes on from the last checkpoint. Several
    bitexts, filters, rules for domains and a development set are given in a configuration.

    **Examples**

    `bitext train --bitext pairs.tsv.xz --columns source,target --model model-en-de --minutes 10`

    `bitext train --config configs/train-en-de.yaml --bitext corpus/en-de.tsv.xz --model
    model-en-de`

    `bitext train --prepared prepared-en-de --languages en,de --model model-en-de --objective
    softmax --batch 1024
    --learning-rate 0.005`

    `bitext train --bitext gettext:django:de --model model-ui --vocabulary 4000 --dim 100 --epochs
    20 --report`
    """
    given = locals()
    flags = {name: value for name, value in given.items() if name not in _OTHERS}
    flags |= {"languages": names(languages), "units": names(units)}
    flags |= {"bitext.path": bitext or None, "bitext.format": form, "bitext.columns": names(columns)}
    flags |= {f"bitext.{name}": given[name] for name in ("source", "target", "domain")}
    _run(config, flags, report)


_OTHERS = {"config", "bitext", "form", "columns", "source", "target", "domain", "report"}


def _run(config: Path | None, flags: dict[str, Any], report: bool) -> None:
    from mining.devices import keep_freed_memory
    from mining.encoder.model_folder import read_config
    from mining.training import is_trained
    from mining.training import train as run_training

    settings = _settings(config, flags)
    if is_trained(settings) and not settings.overwrite:
        say(f"already trained with this configuration and bitext: nothing to do, the model is in {settings.model}")
        return
    keep_freed_memory()
    with _shown() as show:
        folder = run_training(settings, show, _overlap_printer(settings.languages) if report else None)
    facts = read_config(folder)
    summary = facts["training"]
    if (best := summary["development"]) and settings.development is not None:
        say(f"development: {settings.development.metric} {best['best']:.2f} at step {best['step']}, kept as the model")
    loss = f", loss {summary['loss']:.4f}" if summary["steps"] else ""
    say(
        f"{summary['pairs']} pairs, {summary['steps']} steps{loss}; "
        f"{facts['dim']} dimensions, model {facts['hash']} in {folder}"
    )


def _settings(config: Path | None, flags: dict[str, Any]) -> TrainConfig:
    from mining.config.base import read_yaml, validate
    from mining.training import TrainConfig
    from mining.training.data import DataConfig

    data = read_yaml(config) if config else {}
    if flags["prepared"] is not None:
        # What the file says of the data was said of its own bitext.
        data = {key: value for key, value in data.items() if key == "seed" or key not in DataConfig.model_fields}
    elif flags["bitext.path"] is not None:
        data.pop("prepared", None)
    data = merge(data, flags, "bitext train")
    if not data.get("bitext") and not data.get("prepared"):
        raise UsageError(
            "bitext train: name the bitext with --bitext, or prepared pairs with --prepared, or give --config FILE "
            "with a key `bitext` or `prepared`"
        )
    if not data.get("model"):
        raise UsageError("bitext train: name the folder of the model with --model")
    return validate(TrainConfig, data, str(config or "bitext train"))


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
    from mining.training.data import piece_overlap

    rows = [list(_OVERLAP)]
    named = "-".join(languages) if len(languages) == 2 else "all"
    for one in piece_overlap(pairs):
        shares = (one.source_share, one.target_share, one.source_tokens_shared, one.target_tokens_shared)
        counts = (one.pairs, one.source_types, one.target_types, one.shared_types)
        name = named if one.languages == "all" else one.languages
        rows.append([name, one.unit, *(f"{count:,}" for count in counts), *(f"{100 * share:.1f}" for share in shares)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [
        [row[place].ljust(width) if place < 2 else row[place].rjust(width) for row in rows]
        for place, width in enumerate(widths)
    ]
    return ["  ".join(line) for line in zip(*cells, strict=True)]


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Shows stage, loss, pairs per second, mega-batch and time left on stderr: a live line, or one
    a half minute."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from mining.console import SafeConsole

    console = SafeConsole(stderr=True)
    line = TextColumn("{task.description}")
    with Bar(line, BarColumn(bar_width=20), TimeElapsedColumn(), console=console, refresh_per_second=2) as bar:
        task = bar.add_task("", total=1.0)
        yield _Throttle(lambda text, fraction: bar.update(task, description=text, completed=fraction), console)


class _Throttle:
    """Passes on a few of the many reports: five a second to a terminal, a plain line each half
    minute elsewhere."""

    def __init__(self, show: Callable[[str, float], None], console: Any) -> None:
        self._show, self._console = show, console
        self._every = 0.2 if console.is_terminal else 30.0
        self._next = 0.0
        self._stage = ""

    def __call__(self, progress: Progress) -> None:
        import time

        now = time.monotonic()
        if progress.stage == self._stage and now < self._next:
            return
        self._stage, self._next = progress.stage, now + self._every
        text = describe(progress)
        if self._console.is_terminal:
            self._show(text, progress.fraction)
        else:
            self._console.print(text, highlight=False)


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
