"""Files that have their names only once they are whole.

What is written lies under a temporary name beside the place of the file until it is renamed. So a
symbolic link in that place gives way to the new file, and what it points to is never written; a
folder, a pipe or a device is named instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from mining.errors import UsageError

#: Marks a file that is being written.
TEMPORARY = ".tmp-"
#: Temporary names in use, which a process that is stopped removes.
_begun: set[str] = set()


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
def replacing(path: str | os.PathLike[str], *, cache: bool = False, durable: bool = True) -> Iterator[str]:
    """A temporary name beside `path`; the file written under it takes the place of `path` when the
    block ends without an error, as `put_in_place` does it.

    Raises UsageError when a folder, a pipe or a device is there. A file of a `cache` takes the
    place of a pipe too, and need not outlast a power cut.
    """
    durable = durable and not cache
    if not cache:
        check_place(path)
    temporary = f"{os.fspath(path)}{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
    _begun.add(temporary)
    try:
        yield temporary
        # A path that is itself temporary is renamed once more: that is when it has to last.
        put_in_place(temporary, path, durable=durable and TEMPORARY not in os.path.basename(path))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        _begun.discard(temporary)


def put_in_place(temporary: str, path: str | os.PathLike[str], *, durable: bool = True) -> None:
    """Rename a finished file. If `durable`, a power cut afterwards finds the new file whole, and
    one before it the old file: first the contents and then the folder are on the disk."""
    if durable:
        _sync(temporary)
    os.replace(temporary, path)
    if durable:
        _sync(os.path.dirname(path) or os.curdir)


def _sync(path: str) -> None:
    """Ask for a file or the entries of a folder to be on the disk; some file systems cannot do that
    for folders."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def replace_file(path: str | os.PathLike[str], data: bytes, *, durable: bool = True) -> None:
    """Write `data` in place of the file `path`."""
    with replacing(path, durable=durable) as temporary, open(temporary, "xb") as file:
        file.write(data)


def remove_begun() -> None:
    """Remove what this process is writing under temporary names: for the moment before it is
    stopped."""
    for temporary in list(_begun):
        with contextlib.suppress(OSError):
            os.unlink(temporary)


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
