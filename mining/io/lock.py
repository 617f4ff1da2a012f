"""Locks: one process at a time works in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from mining.errors import BitextError

_LOG = logging.getLogger(__name__)

#: What `flock` fails with when another process holds the lock; all else means that there are no
#: locks to be had.
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


@contextlib.contextmanager
def locked(folder: Path, taken: Callable[[], BitextError], handle: int | None = None) -> Iterator[None]:
    """Hold the lock of a folder, or that of its file opened as `handle`, which is closed at the
    end.

    The lock goes with the process, so a killed one leaves none behind. Raises the error that
    `taken` gives where another process holds it. A file system that knows no locks is warned about,
    and the work goes on.
    """
    if handle is None:
        handle = os.open(folder, os.O_RDONLY)
    try:
        if not take_lock(handle, folder):
            raise taken()
        yield
    finally:
        os.close(handle)


def take_lock(handle: int, path: str | os.PathLike[str]) -> bool:
    """Lock the open file or folder `path` for this process; False when another process holds it.

    The lock goes with the handle. On a file system without locks there is a warning, and the work
    goes on.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        _LOG.warning(
            "%s: cannot be locked on this file system (%s): start nothing else that works in this folder",
            os.fspath(path),
            error.strerror,
        )
    return True
