"""Lines of text on standard output and standard error: the one place where commands write them."""

from __future__ import annotations

import io
import logging
import sys

import typer

from mining.shown import safe, safe_lines


def say(line: str = "", *, err: bool = False, fg: str | None = None) -> None:
    """Write one line; names and texts in it never command the terminal."""
    # The stream is named, since typer puts another in place of one that is not UTF-8.
    typer.secho(safe(line), file=sys.stderr if err else sys.stdout, fg=fg)


def warn(message: str) -> None:
    """Write a warning on standard error."""
    say(f"warning: {message}", err=True, fg="yellow")


class LogFormatter(logging.Formatter):
    """Records whose further lines are indented, so that no text in them passes for a record of its
    own."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_lines(super().format(record)).replace("\n", "\n    ")


def write_anything() -> None:
    """Let the standard streams write what their encoding lacks as escapes, where they would
    fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
