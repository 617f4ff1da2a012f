"""Tables and progress on the terminal, by `rich`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from mining.shown import safe_lines


class SafeConsole(Console):
    """A console that takes strings as they are: brackets are no markup, and nothing in them
    commands the terminal.

    That goes for strings, and so for the cells and titles of tables; `Text` is taken for safe
    already.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as rich text."""
        return super().render_str(safe_lines(text), **options)
