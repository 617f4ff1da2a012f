"""The run folder: made, recognised, and locked so that only one run works in it.

The folder itself may be a symbolic link. What a run keeps its books in, the lock and the folders of
the stages, must not: a link there is named, for the run would write and delete in another place. A
link in the place of a result gives way to the result.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from mining.errors import RunError, UsageError
from mining.io import lock
from mining.io.atomic import check_place
from mining.io.json_file import read_json

LOCK = ".bitext-run.lock"
#: What a run writes for the user.
RESULTS = (
    "pairs.parquet",
    "pairs.tsv",
    "dropped.parquet",
    "candidates.parquet",
    "metrics.json",
    "report.json",
    "manifest.json",
    "config.resolved.yaml",
)


def make_run_folder(path: Path) -> None:
    """Create the folder; raises UsageError when it cannot be written, holds something that is not a
    run, or something else in the place of what a run writes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = not os.path.lexists(path / LOCK) and any(path.iterdir())
        if not foreign:
            os.close(_open_lock(path / LOCK))
            _check_places(path)
    except OSError as error:
        raise UsageError(f"{path}: the run folder cannot be written: {error.strerror}; choose another output") from None
    if foreign:
        raise UsageError(f"{path}: the folder is not empty and is not a run: choose a new or empty output folder")


def _open_lock(path: Path) -> int:
    """The lock file, made if it is not there; raises UsageError for anything but a plain file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise UsageError(f"{path}: the lock of a run is a plain file, and this is none: remove it") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UsageError(f"{path}: the lock of a run is a plain file, and this is none: remove it")
    return handle


def _check_places(path: Path) -> None:
    for name in RESULTS:
        check_place(path / name)
    work = path / "work"
    if not os.path.lexists(work):
        return
    for folder in [work, *([] if work.is_symlink() or not work.is_dir() else work.iterdir())]:
        if folder.is_symlink() or not folder.is_dir():
            raise UsageError(f"{folder}: a run keeps its work in a folder here, and this is none, or a link: remove it")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run folder; it is released however the process ends. Raises RunError when
    another run holds it. Where the file system has no locks, there is a warning instead."""

    def taken() -> RunError:
        return RunError(f"{path}: another run is working in this folder ({_holder(path)}): wait for it or stop it")

    handle = _open_lock(path / LOCK)
    with lock.locked(path, taken, handle):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        yield


def _holder(path: Path) -> str:
    try:
        facts = read_json(path / LOCK)
        return f"process {facts['pid']} on {facts['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown process"
