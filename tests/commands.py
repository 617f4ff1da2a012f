"""Running one command of the program by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.testing import CliRunner, Result


def runner(command: Callable[..., Any]) -> Callable[..., Result]:
    """A function that runs `command` with the arguments given; its errors come through as they
    are."""
    app = typer.Typer()
    app.command()(command)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
