"""Running one command of the program by itself."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.testing import CliRunner, Result


def runner(command: click.Command, *before: str) -> Callable[..., Result]:
    """A function that runs `command` with the arguments given, after those `before`; its errors
    come through as they are."""

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(command, [*before, *map(str, arguments)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
