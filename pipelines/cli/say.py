"""What commands write: lines, tables, and metrics as JSON. Text comes to the terminal by no other
way."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mining.errors import UsageError
from mining.shown import safe, safe_lines


def say(line: str = "", *, err: bool = False, fg: str | None = None) -> None:
    """Write one line; names and texts in it never command the terminal."""
    click.secho(safe(line), file=sys.stderr if err else sys.stdout, fg=fg)


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


def share(value: float) -> str:
    """A share between 0 and 1 as a percentage."""
    return f"{100 * value:.2f}%"


def limit_text(value: float | None) -> str:
    """A threshold, without trailing zeros."""
    return "none" if value is None else f"{value:.7f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else repr(value)


def show_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    texts: int = 1,
    err: bool = False,
    least_width: int = 0,
) -> None:
    """Print a table: text in the first `texts` columns, numbers in the others."""
    from rich.table import Table

    from pipelines.console import SafeConsole

    table = Table(title=title, title_justify="left")
    # Names stay whole in a narrow terminal; headers and long cells are folded instead.
    width = min(max((len(row[0]) for row in rows), default=0), 30)
    for i, name in enumerate(header):
        side: Any = "left" if i < texts else "right"
        table.add_column(name, justify=side, overflow="fold", min_width=None if i else width)
    for row in rows:
        table.add_row(*map(safe, row))
    console = SafeConsole(stderr=err)
    console.width = max(console.width, least_width)
    console.print(table)


def columns(rows: Sequence[Sequence[str]], texts: int = 1) -> list[str]:
    """Lines of a table without borders, two spaces between columns; the first `texts` are set to
    the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def check_json(path: str | None, *inputs: str | Path | None) -> None:
    """Check the file of ``--json`` before any work is done: UsageError when nothing can be written
    there, or when it is one of the inputs (None stands for one that is not given)."""
    if path is None:
        return
    from mining.io.atomic import refuse_input

    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        found = "is a folder" if target.is_dir() else f"there is no folder {target.parent}"
        raise UsageError(f"--json {path}: {found}: name a file in a folder that exists")
    refuse_input(target, (one for one in inputs if one is not None), "--json ")


def write_json(path: str | Path, data: dict[str, Any]) -> None:
    """Write metrics with sorted keys; raises UsageError when the file cannot be written."""
    from mining.io import json_file

    try:
        json_file.write_json(path, data)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from None


def closing(line: str, path: str | None, report: dict[str, Any]) -> None:
    """The last line of a command that measures, after its metrics are written."""
    if path is not None:
        write_json(path, report)
        line += f"; metrics in {path}"
    say(line)
