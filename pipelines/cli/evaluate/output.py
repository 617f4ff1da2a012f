"""Tables on standard output and metrics as JSON, for all commands that evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mining.errors import UsageError


def share(value: float) -> str:
    """A share between 0 and 1 as a percentage."""
    return f"{100 * value:.2f}%"


def limit_text(value: float | None) -> str:
    """A threshold, without trailing zeros."""
    return "none" if value is None else f"{value:.7f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else repr(value)


def show_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table on standard output: text in the first column, numbers in the others."""
    from rich.table import Table

    from mining.console import SafeConsole
    from mining.shown import safe

    table = Table(title=title, title_justify="left")
    # Names stay whole in a narrow terminal; headers and long cells are folded instead.
    width = min(max((len(row[0]) for row in rows), default=0), 30)
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", overflow="fold", min_width=None if i else width)
    for row in rows:
        table.add_row(*map(safe, row))
    SafeConsole().print(table)


def refuse_inputs(path: Path | None, *inputs: str | Path | None) -> None:
    """Raise UsageError when the file of ``--json`` is one of the inputs; None stands for one that
    is not given."""
    if path is not None:
        from mining.io.atomic import refuse_input

        refuse_input(path, (one for one in inputs if one is not None), "--json ")


def writable(path: Path | None) -> Path | None:
    """Check the place of ``--json`` before any work is done; raises UsageError when nothing can be
    written there."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        found = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"--json {path}: {found}: name a file in a folder that exists")
    return path


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write metrics with sorted keys; raises UsageError when the file cannot be written."""
    from mining.io import json_file

    try:
        json_file.write_json(path, data)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from None
