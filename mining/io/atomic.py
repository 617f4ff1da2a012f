"""Files that have their names only once they are whole.

What is written lies under a temporary name beside the place of the file until it is renamed. So a
symbolic link in that place gives way to the new file, and what it points to is never written; a
folder, a pipe or a device is named instead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mining.errors import UsageError
from mining.shown import json_text

_LOG = logging.getLogger(__name__)

#: Marks a file that is being written.
TEMPORARY = ".tmp-"
#: Temporary names in use, which a process that is stopped removes.
_begun: set[str] = set()
#: What `flock` fails with when another process holds the lock; all else means that there are no
#: locks to be had.
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise UsageError when something is at `path` that a new file must not take the place of."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        raise UsageError(f"{os.fspath(path)}: a file of this name is to be written, and it is a folder: move it away")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise UsageError(f"{os.fspath(path)}: a file of this name is to be written, and it is a pipe or a device")


def refuse_input(output: str | Path, inputs: Iterable[str | Path], flag: str = "") -> None:
    """Raise UsageError when an output would take the place of an input; `flag` names what it was
    given by."""
    place = Path(output).resolve()
    for path in inputs:
        if Path(path).resolve() == place:
            raise UsageError(f"{flag}{output}: is the input as well: name another output")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary name beside `path` that takes its place when the block ends without an error.

    Raises UsageError when a folder, a pipe or a device is there.
    """
    check_place(path)
    temporary = f"{os.fspath(path)}{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
    _begun.add(temporary)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        _begun.discard(temporary)


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` in place of the file `path`, safe on the disk before it has its name."""
    with replacing(path) as temporary, open(temporary, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write JSON as `json_text` makes it."""
    with replacing(path) as temporary:
        Path(temporary).write_text(json_text(data) + "\n", encoding="utf-8")


def remove_begun() -> None:
    """Remove what this process is writing under temporary names: for the moment before it is
    stopped."""
    for temporary in list(_begun):
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def take_lock(handle: int, place: str | os.PathLike[str]) -> bool:
    """Lock the open file or folder `place` for this process; False when another process holds it.

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
            os.fspath(place),
            error.strerror,
        )
    return True


def is_full(error: OSError) -> bool:
    """Whether an error says that the disk, or the user's share of it, is full."""
    # numpy tells of a short write in its own words and without an error number; only a full disk
    # makes one.
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or (error.errno is None and "requested and" in str(error))


def reason(error: OSError) -> str:
    """An error of the file system in words, with the file where it is known."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    # numpy and Arrow have words of their own for a full disk.
    return f"{where}{os.strerror(error.errno or errno.ENOSPC) if is_full(error) else error.strerror or error}"
