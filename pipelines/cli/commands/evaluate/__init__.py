"""``bitext evaluate``: mined pairs against gold, and models against test sets."""

from __future__ import annotations

import click

from mining.registry import Registry
from pipelines.cli.commands import COMMANDS, Commands

EVALUATIONS: Registry[click.Command] = Registry("command", __name__)

evaluate = COMMANDS.register("evaluate")(
    Commands(EVALUATIONS, __name__, "evaluate", "Measure mined pairs against gold, and models against test sets.")
)
