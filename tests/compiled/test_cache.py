"""Machine code of kernels on disk: kept, read again, and done without where that cannot be."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config

from mining.compiled import cache as kernel_cache
from mining.compiled import compiled

VALUES = np.arange(10, dtype=np.int64)
PROGRAM = """
import numpy as np
from outer import count
print(count(np.arange(10)), sum(count.stats.cache_hits.values()))
"""
INNER = "from mining.compiled import compiled\n@compiled\ndef within(value):\n    return value < 3\n"
OUTER = """from mining.compiled import compiled
from inner import within
@compiled
def count(values):
    found = 0
    for value in values:
        if within(value):
            found += 1
    return found
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    """An empty folder for compiled code, in a process that has not said anything yet."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_told", set())
    caplog.set_level(logging.INFO, kernel_cache.__name__)
    return tmp_path / "cache" / "bitext"


def _total(values: np.ndarray) -> Any:
    total = values[0] - values[0]
    for value in values:
        total += value
    return total


def _run(values: np.ndarray = VALUES) -> int:
    """Call a kernel as a new process does that finds what others kept; how much it did find."""
    kernel: Any = compiled(_total)
    assert kernel(values) == sum(values)
    return sum(kernel.stats.cache_hits.values())


def _said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_an_edited_kernel_is_compiled_anew_into_those_that_call_it(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])

    def run(inner: str) -> str:
        (tmp_path / "inner.py").write_text(inner, encoding="utf-8")
        command = [sys.executable, "-B", "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "outer.py").write_text(OUTER, encoding="utf-8")
    assert run(INNER) == "3 0"
    assert run(INNER.replace("<", ">=")) == "7 0"
    assert run(INNER) == "3 1"


def test_what_was_compiled_is_found_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [_run(), _run()] == [0, 1]
    assert [path.suffix for path in folder.iterdir()] == [".nbc"]
    assert len(_said(caplog, logging.INFO)) == 1
    assert not _said(caplog, logging.WARNING)


def test_a_compilation_is_said_once_and_reading_is_not(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    _run()
    _run(VALUES.astype(np.float64))
    assert len(_said(caplog, logging.INFO)) == 1
    kernel_cache._told.clear()
    caplog.clear()
    _run()
    assert not caplog.records


def test_kernels_that_are_compiled_at_once_do_not_meet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As when two processes have both looked before either writes, and the first to look is the last
    # to write.
    waiting: list[tuple[Any, ...]] = []
    monkeypatch.setattr(kernel_cache, "write_code", lambda *parts: waiting.append(parts))
    folder.mkdir(parents=True)
    kinds = [VALUES, VALUES.astype(np.float64), VALUES.astype(np.uint8)]
    assert [_run(values) for values in kinds] == [0, 0, 0]
    monkeypatch.undo()
    for parts in reversed(waiting):
        kernel_cache.write_code(*parts)
    monkeypatch.setattr(config, "CACHE_DIR", str(folder.parent))
    assert [_run(values) for values in kinds] == [1, 1, 1]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _other(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[Callable[[Path], object]] = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:20]),
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(bytes(path.stat().st_size)),
    lambda path: path.chmod(0o666),
    _flip,
    _other,
    _pipe,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_damaged_code_is_done_without(
    damage: Callable[[Path], object], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _run()
    (file,) = folder.iterdir()
    damage(file)
    assert [_run(), _run()] == [0, 0 if file.is_dir() else 1]
    (warning,) = _said(caplog, logging.WARNING)
    assert str(folder) in warning


def test_code_of_another_kernel_under_the_name_is_damage(folder: Path) -> None:
    _run()
    (first,) = folder.iterdir()
    _run(VALUES.astype(np.float64))
    (second,) = set(folder.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    assert _run(VALUES.astype(np.float64)) == 0


@pytest.mark.parametrize("name", ["read_code", "write_code", "dumps", "_remove_old"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), EOFError()])
def test_whatever_fails_with_the_files_the_kernel_works(
    name: str, error: Exception, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(kernel_cache, name, fail)
    _run()
    _run(VALUES.astype(np.float64))
    (warning,) = _said(caplog, logging.WARNING)
    assert str(folder) in warning


def test_a_file_in_the_place_of_the_folder(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.parent.write_text("in the way")
    assert [_run(), _run()] == [0, 0]
    (warning,) = _said(caplog, logging.WARNING)
    assert str(folder) in warning
    assert "Not a directory" in warning


def test_a_folder_that_cannot_be_made(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", "/dev/null/cache")
    monkeypatch.setattr(kernel_cache, "_told", set())
    _run()
    (warning,) = _said(caplog, logging.WARNING)
    assert "/dev/null/cache" in warning


def test_the_next_folder_takes_what_the_first_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(kernel_cache, "_told", set())
    monkeypatch.setattr(kernel_cache, "folders", lambda: [Path("/proc/none"), tmp_path / "second"])
    assert [_run(), _run()] == [0, 1]
    assert not _said(caplog, logging.WARNING)


def test_an_unfinished_file_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        kernel_cache.write_code(tmp_path / "name.nbc", "key", b"code")
    assert not list(tmp_path.iterdir())


def test_old_files_of_a_kernel_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "KEPT", 3)
    folder.mkdir(parents=True)
    other = folder / "another_kernel-1.nbc"
    other.touch()
    names = []
    for age, kind in enumerate((np.int8, np.int16, np.int32, np.uint8, np.uint16)):
        _run(VALUES.astype(kind))
        (new,) = set(folder.iterdir()) - {other, *names}
        # Files of one second have an order only where the file system counts finely.
        os.utime(new, (age, age))
        names.append(new)
    assert set(folder.iterdir()) == {other, *names[-3:]}


ME, SOMEBODY, ROOT, MAINTAINER = 1000, 2000, 0, 3000


@pytest.mark.parametrize(
    ("owner", "mode", "package", "trusted"),
    [
        (ME, 0o644, 0o755, True),
        (ROOT, 0o644, 0o755, True),
        (MAINTAINER, 0o644, 0o755, True),
        (SOMEBODY, 0o600, 0o755, False),
        (ME, 0o664, 0o755, False),
        (ME, 0o646, 0o755, False),
        (ROOT, 0o666, 0o755, False),
        # Whoever can write the package can make its code do anything.
        (ME, 0o664, 0o775, True),
        (ME, 0o666, 0o775, False),
        (ME, 0o666, 0o777, True),
        (SOMEBODY, 0o644, 0o777, False),
    ],
)
def test_a_file_is_read_that_nobody_else_could_have_written(
    owner: int, mode: int, package: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(os, "stat", lambda _: os.stat_result((stat.S_IFDIR | package, 0, 0, 0, MAINTAINER, *[0] * 5)))
    file = os.stat_result((stat.S_IFREG | mode, 0, 0, 0, owner, *[0] * 5))
    if trusted:
        kernel_cache._check_owner(file)
    else:
        with pytest.raises(PermissionError, match="other users"):
            kernel_cache._check_owner(file)


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(kernel_cache.__file__).parent / "__pycache__" / "kernels"
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernel_cache.folders() == [package, tmp_path / "bitext"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert kernel_cache.folders() == [package, Path("/home/me/.cache/bitext")]
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert kernel_cache.folders() == [package]
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert kernel_cache.folders() == [tmp_path / "bitext"]
