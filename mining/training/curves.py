"""The curves of a training: points as JSON lines, a plot, and TensorBoard's event files."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mining.errors import UsageError
from mining.io.atomic import replace_file

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

LOG_FILE = "log.jsonl"
PLOT_FILE = "curves.png"
TENSORBOARD_FOLDER = "tensorboard"
SERIES = {
    "loss": "loss",
    "learning_rate": "learning rate",
    "mega_batch": "mini-batches in a mega-batch",
    "development": "development metric",
}
"""What is drawn, by the key of a point, with its name."""

_LOG = logging.getLogger(__name__)

Point = dict[str, float]
"""``step``, ``pairs`` and any of the keys of SERIES."""


class Curves:
    """Writes the points of a training into its folder as they come.

    What a killed run wrote after its last checkpoint is dropped at the start: the points of the
    checkpoint are all that count, so that none comes twice and none is lost.
    """

    def __init__(self, folder: Path, points: Sequence[Point] = (), *, tensorboard: bool = False) -> None:
        """`points`: those of the checkpoint that the training goes on from. Raises what
        `check_tensorboard` does."""
        self.folder = folder
        self._log = folder / LOG_FILE
        self._tensorboard: SummaryWriter | None = None
        if points or os.path.lexists(self._log):
            self._rewrite(points)
        shutil.rmtree(folder / TENSORBOARD_FOLDER, ignore_errors=True)
        if tensorboard:
            check_tensorboard()
            from tensorboardX import SummaryWriter

            self._tensorboard = SummaryWriter(str(folder / TENSORBOARD_FOLDER))
            for point in points:
                self._event(point)

    def add(self, point: Point) -> None:
        """Note a point: a line of the log, and an event."""
        self.folder.mkdir(exist_ok=True)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(_line(point))
        self._event(point)

    def finish(self, points: Sequence[Point]) -> None:
        """Write all points and the plot; nothing where there is no point."""
        if points:
            self._rewrite(points)
            plot(points, self.folder / PLOT_FILE)
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _rewrite(self, points: Sequence[Point]) -> None:
        self.folder.mkdir(exist_ok=True)
        replace_file(self._log, "".join(map(_line, points)).encode())

    def _event(self, point: Point) -> None:
        if self._tensorboard is None:
            return
        for key in SERIES:
            if key in point:
                self._tensorboard.add_scalar(key, point[key], point["step"])
        self._tensorboard.flush()


def check_tensorboard() -> None:
    """Raise UsageError when TensorBoard's event files cannot be written."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError:
        raise UsageError("tensorboard: true needs tensorboardX: pip install tensorboardX, or leave it out") from None


def plot(points: Sequence[Point], path: Path) -> None:
    """Draw the curves over the steps, one below the other, as PNG; a warning where matplotlib is
    missing.

    A curve needs two points; without any, nothing is drawn.
    """
    curves = {key: [(point["step"], point[key]) for point in points if key in point] for key in SERIES}
    curves = {key: values for key, values in curves.items() if len(values) > 1}
    if not curves:
        return
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        _LOG.warning("no plot of the curves, they are in %s: pip install matplotlib", path.with_name(LOG_FILE))
        return
    figure = Figure(figsize=(8, 2.2 * len(curves)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (key, drawn) in zip(panels, curves.items(), strict=True):
        steps, values = zip(*drawn, strict=True)
        panel.plot(steps, values, marker="." if key == "development" else None)
        panel.set_ylabel(SERIES[key])
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("step")
    image = BytesIO()
    figure.savefig(image, format="png", dpi=100)
    replace_file(path, image.getvalue())


def _line(point: Point) -> str:
    return json.dumps(point) + "\n"
