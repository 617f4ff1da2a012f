"""``bitext train``: learn the vocabulary and the piece vectors of an SP encoder from a bitext."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mining.errors import UsageError

if TYPE_CHECKING:
    from mining.training import Progress

_MANY = "several files: repeat the option"


def train(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML of the settings; flags override it.")
    ] = None,
    bitext: Annotated[
        list[str] | None, typer.Option(help=f"Bitext: path, glob or gettext:NAME:LANG ({_MANY}).")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="auto, text, tsv, jsonl, parquet, tmx or gettext.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the TSV columns in their order, comma between.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Column, field, tmx language or msgid/msgstr of the source.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The same of the target.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Folder to write the model to.")] = None,
    languages: Annotated[str | None, typer.Option(help="Language codes kept with the model, comma between.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Pieces of the shared vocabulary (20000).")] = None,
    vocabulary_sentences: Annotated[int | None, typer.Option(help="Sentences it is learnt from (500000).")] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--keep-case", help="Fold case before encoding (on).")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension of the vectors (300).")] = None,
    objective: Annotated[str | None, typer.Option(help="margin (default) or softmax.")] = None,
    delta: Annotated[float | None, typer.Option(help="Margin of the margin objective (0.4).")] = None,
    scale: Annotated[float | None, typer.Option(help="Inverse temperature of the softmax objective.")] = None,
    batch: Annotated[int | None, typer.Option(help="Pairs in a mini-batch (128).")] = None,
    mega_batch: Annotated[int | None, typer.Option(help="Most mini-batches searched for hard negatives (60).")] = None,
    anneal: Annotated[
        int | None, typer.Option(help="Mini-batches after which the mega-batch grows by one (150).")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Adam's step size (0.001).")] = None,
    schedule: Annotated[str | None, typer.Option(help="linear (falls to zero, default) or constant.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Probability of leaving out a piece (0).")] = None,
    grad_clip: Annotated[float | None, typer.Option(help="Largest gradient norm (off).")] = None,
    min_pieces: Annotated[int | None, typer.Option(help="Leave out pairs with a shorter side (1).")] = None,
    max_pieces: Annotated[int | None, typer.Option(help="Cut longer sentences in training (100).")] = None,
    domain_column: Annotated[str | None, typer.Option(help="Column with the domain of a pair.")] = None,
    domain_cap: Annotated[int | None, typer.Option(help="Most pairs of one domain.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the bitext (10 unless --minutes).")] = None,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock budget of the whole training.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices (1).")] = None,
    threads: Annotated[int | None, typer.Option(help="0: all cores.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu (default) or cuda.")] = None,
    checkpoint_minutes: Annotated[float | None, typer.Option(help="Time between checkpoints (1).")] = None,
    keep_checkpoint: Annotated[
        bool | None, typer.Option("--keep-checkpoint", help="Keep the checkpoint after success.")
    ] = None,
    overwrite: Annotated[
        bool | None, typer.Option("--overwrite", help="Replace a model of another configuration.")
    ] = None,
) -> None:
    """Train an SP encoder: a sentencepiece vocabulary shared by both languages, and a vector for each piece.

    The model folder holds model.safetensors, sentencepiece.model and config.json, and is all that `encode`, `score` and
    `mine` need. Killed at any moment, the same command goes on from the last checkpoint.

    **Examples**

    `bitext train --bitext pairs.tsv.xz --columns source,target --model model-en-de --minutes 10`

    `bitext train --config configs/train-en-de.yaml --bitext corpus/en-de.tsv.xz --model model-en-de`

    `bitext train --bitext gettext:django:de --model model-ui --vocabulary 4000 --dim 100 --epochs 20`
    """
    flags = {name: value for name, value in locals().items() if name not in _BITEXT_FLAGS}
    flags["languages"] = _names(languages)
    flags |= {"bitext.path": bitext or None, "bitext.format": form, "bitext.columns": _names(columns)}
    flags |= {"bitext.source": source, "bitext.target": target}
    _run(config, flags)


_BITEXT_FLAGS = {"config", "bitext", "form", "columns", "source", "target"}


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text is not None else None


def _run(config: Path | None, flags: dict[str, Any]) -> None:
    from mining.encoder import load_encoder
    from mining.settings import override, read_yaml, validate
    from mining.training import TrainConfig, is_trained
    from mining.training import train as run_training

    data = override(read_yaml(config) if config else {}, flags)
    if not data.get("bitext"):
        raise UsageError("bitext train: name the bitext with --bitext, or give --config FILE with a key `bitext`")
    if not data.get("model"):
        raise UsageError("bitext train: name the folder of the model with --model")
    settings = validate(TrainConfig, data, str(config or "bitext train"))
    if is_trained(settings) and not settings.overwrite:
        typer.echo(
            f"already trained with this configuration and bitext: nothing to do, the model is in {settings.model}"
        )
        return
    with _shown() as report:
        folder = run_training(settings, report)
    encoder = load_encoder(folder)
    summary = getattr(encoder, "config", {}).get("training", {})
    typer.echo(
        f"{summary['pairs']} pairs, {summary['steps']} steps, loss {summary['loss']:.4f}; "
        f"{encoder.dim} dimensions, model {encoder.hash} in {folder}"
    )


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Shows stage, loss, pairs per second, mega-batch and time left on stderr: a live line, or one a half minute."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    line = TextColumn("{task.description}")
    with Bar(line, BarColumn(bar_width=20), TimeElapsedColumn(), console=console, refresh_per_second=2) as bar:
        task = bar.add_task("", total=1.0)
        yield _Throttle(lambda text, fraction: bar.update(task, description=text, completed=fraction), console)


class _Throttle:
    """Passes on a few of the many reports: five a second to a terminal, a plain line each half minute elsewhere."""

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
    if progress.stage == "vocabulary":
        return "learning the vocabulary"
    if progress.stage == "pieces":
        return f"splitting into pieces: {progress.pairs:,} pairs"
    left = int(progress.seconds_left) if math.isfinite(progress.seconds_left) else 0
    return (
        f"epoch {progress.epoch + 1}  loss {progress.loss:.4f}  {progress.pairs_per_second:,.0f} pairs/s  "
        f"mega-batch {progress.mega_batch}  {left // 60}:{left % 60:02d} left"
    )
