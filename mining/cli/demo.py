"""``bitext demo``: the whole path on real translations, from training to a measured result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mining.training import Progress

WIDTH = 100
"""Characters of a sentence that are shown."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the data, the model and the runs.")] = Path(
        "demo-run"
    ),
) -> None:
    """Train a small model on real translations, hide the alignment of others among unaligned sentences, and mine them.

    The sentences are the English and German messages in the gettext catalogues of the packages that
    `pip install 'bitext-miner[cpu,demo]'` brings. Hidden sentences do not occur in training, and the threshold is tuned
    on one hidden part and measured on another. Takes about a minute on two cores; the same command again reuses what is
    done.

    **Examples**

    `bitext demo`

    `bitext demo --output demo-run`
    """
    from pipelines import demo as job

    started = time.monotonic()
    catalogues = job.installed_catalogues()
    pairs = job.read_pairs(catalogues.values())
    prepared = job.prepare(output, pairs, job.HIDDEN_PAIRS)
    typer.echo(f"{len(pairs):,} distinct pairs from the catalogues of {', '.join(catalogues)}")
    for name, (sources, targets, gold) in prepared.tasks.items():
        typer.echo(f"{name}: {gold:,} translations hidden among {sources:,} English and {targets:,} German sentences")
    typer.echo(f"training on the other {prepared.training:,} pairs")
    with _shown() as report:
        job.train_model(output, job.TRAINING, report)
    typer.echo(f"mining dev to tune the threshold, then test with it ({time.monotonic() - started:.0f} s so far)")
    result = job.tune_and_test(output)
    _show_examples(job.examples(output))
    _show_result(result, time.monotonic() - started)
    typer.echo(f"{result.pairs:,} mined pairs: {result.folder / 'pairs.tsv'}")


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """The progress of the training as one live line on a terminal; elsewhere nothing."""
    from rich.console import Console

    from mining.cli.train import describe

    with Console(stderr=True).status("training") as status:
        yield lambda progress: status.update(describe(progress))


def _show_examples(pairs: list[Any]) -> None:
    from textwrap import shorten

    typer.echo("\nfive mined pairs of test, from the best score to the worst (+ right, - wrong):")
    for pair in pairs:
        source, target = (shorten(text, WIDTH, placeholder=" …") for text in (pair.source, pair.target))
        typer.echo(f"  {'+' if pair.correct else '-'} {pair.score:.3f}  {source}\n           {target}")


def _show_result(result: Any, seconds: float) -> None:
    bucc = result.metrics["bucc"]
    counts = bucc["counts"]
    limit = "no threshold" if result.threshold is None else f"threshold {result.threshold:.4f}"
    typer.echo(
        f"\nprecision {100 * bucc['precision']:.1f}%  recall {100 * bucc['recall']:.1f}%  F1 {100 * bucc['f1']:.1f}%  "
        f"on test: {counts['correct']:,} right of {counts['extracted']:,} mined and {counts['gold_kept']:,} hidden, "
        f"{limit} tuned on dev, {seconds:.0f} s in all"
    )
