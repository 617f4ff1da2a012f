from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from mining.errors import UsageError
from mining.training.curves import LOG_FILE, PLOT_FILE, TENSORBOARD_FOLDER, Curves, check_tensorboard

POINTS: list[dict[str, Any]] = [
    {"step": step, "pairs": 16 * step, "loss": 1 / step, "learning_rate": 0.1, "mega_batch": 2, **more}
    for step, more in ((100, {}), (150, {"development": 61.5}), (200, {}), (250, {"development": 70.0}))
]


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG_FILE).read_text().rstrip("\n").split("\n")]


def scalars(folder: Path) -> list[tuple[str, int]]:
    """Names and steps of the scalars in the event files, in their order."""
    from tensorboardX.proto import event_pb2

    found = []
    for path in sorted((folder / TENSORBOARD_FOLDER).iterdir()):
        data, place = path.read_bytes(), 0
        while place < len(data):
            # A record: length (8), its checksum (4), the event, its checksum (4).
            size = int.from_bytes(data[place : place + 8], "little")
            event = event_pb2.Event.FromString(data[place + 12 : place + 12 + size])
            found += [(value.tag, event.step) for value in event.summary.value]
            place += 16 + size
    return found


def test_points_are_in_the_log_as_they_come_and_in_the_plot_at_the_end(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "curves")
    for number, point in enumerate(POINTS):
        curves.add(point)
        assert logged(curves.folder) == POINTS[: number + 1]
    curves.finish(POINTS)
    assert logged(curves.folder) == POINTS
    assert (curves.folder / PLOT_FILE).read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in curves.folder.iterdir()) == [PLOT_FILE, LOG_FILE]


def test_after_a_kill_no_point_comes_twice_and_none_is_lost(tmp_path: Path) -> None:
    killed = Curves(tmp_path, tensorboard=True)
    for point in POINTS[:3]:
        killed.add(point)
    with (tmp_path / LOG_FILE).open("a") as file:
        file.write('{"step": 2')
    resumed = Curves(tmp_path, POINTS[:2], tensorboard=True)
    assert logged(tmp_path) == POINTS[:2]
    for point in POINTS[2:]:
        resumed.add(point)
    resumed.finish(POINTS)
    assert logged(tmp_path) == POINTS
    assert [step for name, step in scalars(tmp_path) if name == "loss"] == [100, 150, 200, 250]
    assert [step for name, step in scalars(tmp_path) if name == "development"] == [150, 250]


def test_a_log_without_points_of_the_checkpoint_is_emptied(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text('{"step": 100}\n')
    Curves(tmp_path)
    assert (tmp_path / LOG_FILE).read_text() == ""


def test_without_points_nothing_is_written(tmp_path: Path) -> None:
    Curves(tmp_path / "curves").finish([])
    assert not (tmp_path / "curves").exists()


def test_a_single_point_is_no_curve(tmp_path: Path) -> None:
    Curves(tmp_path / "curves").finish(POINTS[:1])
    assert [path.name for path in (tmp_path / "curves").iterdir()] == [LOG_FILE]


def test_without_matplotlib_there_is_a_warning_and_no_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        Curves(tmp_path).finish(POINTS)
    assert "pip install matplotlib" in caplog.text
    assert logged(tmp_path) == POINTS
    assert not (tmp_path / PLOT_FILE).exists()


def test_without_tensorboardx_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tensorboard()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UsageError, match="pip install tensorboardX"):
        check_tensorboard()
