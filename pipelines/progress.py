"""Progress on standard error: a live line on a terminal, a few plain lines or nothing elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from mining.shown import safe

if TYPE_CHECKING:
    from pipelines.console import SafeConsole


class Show(Protocol):
    """Shows a line of text, what of a total is done, and the stage that it belongs to."""

    def __call__(self, text: str, done: float | None = None, stage: str = "") -> None: ...


def _console(quiet: bool = False) -> SafeConsole:
    from pipelines.console import SafeConsole

    return SafeConsole(stderr=True, quiet=quiet)


@contextmanager
def progress(
    total: float | None = None, *, plain: float | None = None, console: SafeConsole | None = None
) -> Iterator[Show]:
    """A live line with the time gone, and with a `total` a bar and the time left.

    Elsewhere than on a terminal there is nothing, or with `plain` a line when the stage changes and
    every `plain` seconds within one.
    """
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = console or _console()
    shown: list[ProgressColumn] = [TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    if total is not None:
        shown[1:1] = [BarColumn(bar_width=20)]
        shown.append(TimeRemainingColumn())
    with Progress(*shown, console=console, disable=not console.is_terminal, refresh_per_second=2) as live:
        task = live.add_task("", total=total)
        last, due = "", 0.0

        def show(text: str, done: float | None = None, stage: str = "") -> None:
            nonlocal last, due
            every, now = 0.2 if console.is_terminal else plain, time.monotonic()
            if every is None or (stage == last and now < due and done != total):
                return
            last, due = stage, now + every
            if console.is_terminal:
                live.update(task, description=text, completed=done)
            else:
                console.print(text, soft_wrap=True)

        yield show


@contextmanager
def counting(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows how many rows are done, and how many a second; yields a function that is told how many
    more are."""
    started, done = time.monotonic(), 0
    with progress(total) as show:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            show(f"{text} {done:,} rows, {done / max(time.monotonic() - started, 1e-3):,.0f} rows/s", done)

        yield advance


class Progress:
    """The stages of a run, a line each; `quiet` shows nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = _console(quiet)

    def say(self, line: str) -> None:
        """Show one line."""
        self.console.print(safe(line), soft_wrap=True)

    @contextmanager
    def stage(self, label: str, total: int, done: int) -> Iterator[Callable[[float], None]]:
        """`total` steps of which `done` are finished; yields a function that is told how many more
        are."""
        with progress(total, plain=30, console=self.console) as show:

            def tell(finished: float) -> None:
                show(f"{label:>12} {done + finished:,.0f} of {total:,} steps", done + finished, label)

            yield tell
            tell(total - done)
