"""The run folder: made, recognised, and locked so that only one run works in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from mining.errors import RunError, UsageError

LOCK = ".bitext-run.lock"


def make_run_folder(path: Path) -> None:
    """Create the folder; raises UsageError when it cannot be written or holds something that is not a run."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = not (path / LOCK).exists() and any(path.iterdir())
        if not foreign:
            (path / LOCK).touch()
    except OSError as error:
        raise UsageError(f"{path}: the run folder cannot be written: {error.strerror}; choose another output") from None
    if foreign:
        raise UsageError(f"{path}: the folder is not empty and is not a run: choose a new or empty output folder")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run folder; it is released however the process ends. Raises RunError when another run holds
    it."""
    with open(path / LOCK, "r+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                f"{path}: another run is working in this folder ({_holder(path)}): wait for it or stop it"
            ) from None
        lock.truncate(0)
        json.dump({"host": socket.gethostname(), "pid": os.getpid()}, lock)
        lock.flush()
        yield


def _holder(path: Path) -> str:
    try:
        facts = json.loads((path / LOCK).read_text(encoding="utf-8"))
        return f"process {facts['pid']} on {facts['host']}"
    except (OSError, ValueError, KeyError):
        return "unknown process"
