"""``bitext demo``: real translations, hidden among unaligned sentences, found and counted."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, command
from pipelines.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mining.config.mine import DemoConfig
    from pipelines.demo import Example
    from pipelines.mine import MineResult

WIDTH = 100
"""Characters of a sentence that are shown."""


@COMMANDS.register("demo")
@command(
    "mining.config.mine:DemoConfig",
    "demo",
    "demo --output demo-own --model model-en-de",
    file=None,
)
def demo(settings: DemoConfig, call: Call) -> None:
    """Hide translations among unaligned sentences, find them with a model, and count.

    The sentences are the English and German messages in the gettext catalogues of the packages that
    `pip install 'bitext-miner[cpu,demo]'` brings. The threshold is tuned on one part and measured
    on another. Takes about twenty seconds on two cores, and the first time half a minute more for
    compiling; the same command again reuses what is done.

    The bundled model has not learnt from these catalogues, but from those of other programs: one
    message in a hundred stands there with the same translation, and many in like words. Precision,
    recall and F1 show that everything works; for the quality of the model see `docs/models.md`.
    """
    from pipelines import demo as job

    started = time.monotonic()
    catalogues = job.installed_catalogues()
    pairs = job.read_pairs(catalogues.values())
    sizes = job.prepare(settings.output, pairs, job.HIDDEN_PAIRS)
    say(f"{len(pairs):,} distinct pairs from the catalogues of {', '.join(catalogues)}")
    for name, size in sizes.items():
        sides = f"{size.source:,} English and {size.target:,} German sentences"
        say(f"{name}: {size.gold:,} translations hidden among {sides}")
    if job.compiles_first():
        logging.getLogger("mining.compiled.cache").setLevel(logging.WARNING)
        say("first run on this machine: numba compiles the search for its processor, half a minute to a minute, once")
    say(f"mining dev to tune the threshold ({time.monotonic() - started:.0f} s so far)")
    threshold = job.tune(settings.output, settings.model)
    say(f"mining test with it ({time.monotonic() - started:.0f} s so far)")
    result = job.measure(settings.output, threshold, settings.model)
    _show_examples(job.examples(settings.output))
    _show_result(result, time.monotonic() - started)
    say(f"{result.pairs:,} mined pairs: {result.folder / 'pairs.tsv'}")
    say()
    say("mine your own: put your files in place of the demo's (--columns is for TSV files only)")
    say(job.own_command(settings.output, settings.model))


def _show_examples(pairs: Sequence[Example]) -> None:
    from textwrap import shorten

    say()
    say("five mined pairs of test, from the best score to the worst (+ right, - wrong):")
    for pair in pairs:
        source, target = (shorten(text, WIDTH, placeholder=" …") for text in (pair.source, pair.target))
        say(f"  {'+' if pair.correct else '-'} {pair.score:.3f}  {source}")
        say(f"           {target}")


def _show_result(result: MineResult, seconds: float) -> None:
    bucc = result.metrics["bucc"]
    counts = bucc["counts"]
    limit = "no threshold" if result.threshold is None else f"threshold {result.threshold:.4f}"
    say()
    say(
        f"precision {100 * bucc['precision']:.1f}%  recall {100 * bucc['recall']:.1f}%  F1 {100 * bucc['f1']:.1f}%  "
        f"on test: {counts['correct']:,} right of {counts['extracted']:,} mined and {counts['gold_kept']:,} hidden, "
        f"{limit} tuned on dev, {seconds:.0f} s in all"
    )
