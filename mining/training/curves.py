"""The curves of a training: points as JSON lines, a plot, and TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Curves:
    """Writes the points of a training into its folder as they come."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.folder, self.tensorboard = folder, tensorboard

    def add(self, point: Mapping[str, Any]) -> None:
        """Note a point."""

    def finish(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Write all points and the plot."""
