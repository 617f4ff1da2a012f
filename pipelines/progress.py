"""Progress of a run on the terminal: one bar a stage, with time gone and left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from mining.console import SafeConsole
from mining.shown import safe


class Progress:
    """Shows stages on standard error; `quiet` shows nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = SafeConsole(stderr=True, quiet=quiet)

    def say(self, line: str) -> None:
        """Show one line."""
        self.console.print(safe(line), soft_wrap=True)

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int) -> Iterator[Callable[[float], None]]:
        """A bar over `total` steps of which `done` are finished; yields a function that is told how
        many more are."""
        columns = (
            TextColumn("{task.description:>12}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("of {task.total} steps"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with RichProgress(*columns, console=self.console) as bars:
            task = bars.add_task(label, total=total, completed=done)
            yield lambda finished: bars.update(task, completed=done + finished)
            bars.update(task, completed=total)
