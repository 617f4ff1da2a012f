"""``bitext evaluate``: measure mined pairs against gold, and encoders against test sets."""

from __future__ import annotations

import typer

from pipelines.cli.evaluate.bucc import BUCC_HELP, bucc
from pipelines.cli.evaluate.mining import MINING_HELP, mining
from pipelines.cli.evaluate.sts import STS_HELP, sts
from pipelines.cli.evaluate.tatoeba import TATOEBA_HELP, tatoeba

app = typer.Typer(help="Measure mined pairs against gold, and models against test sets.", no_args_is_help=True)
app.command("bucc", help=BUCC_HELP)(bucc)
app.command("mining", help=MINING_HELP)(mining)
app.command("tatoeba", help=TATOEBA_HELP)(tatoeba)
app.command("sts", help=STS_HELP)(sts)
