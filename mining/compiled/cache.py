"""Machine code of kernels on disk, a file for each kernel and signature.

A file is named by the hash of all that its code depends on (`kernel_key`), begins with a hash of
its contents, and is renamed when it is whole: what a power cut leaves is noticed, and processes
that compile at the same time do each other no harm. Code that cannot be read or kept is done
without; one warning names the folder.

What is in a file is unpickled and run. So only a file is read that nobody could have written but
this user, the superuser, and those who can write the package itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import stat
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from mining.compiled.key import kernel_key
from mining.io.atomic import replacing

log = logging.getLogger(__name__)

KEPT = 32
"""Files of one kernel that are kept: it has one for each signature, processor and version of its
source."""
_HASH_BYTES = hashlib.sha256().digest_size
_PACKAGE = Path(__file__).parent
_settings: Any = config
_told: set[str] = set()


class KernelCache(NullCache):
    """The cache of one kernel, in the place of numba's own, whose methods it has.

    numba calls them with the lock of its compiler held: one thread at a time is in here.
    """

    def __init__(self, kernel: Any) -> None:
        """`kernel`: what numba makes of a function."""
        self._kernel = kernel
        name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__qualname__}"
        self._name = name.replace("<", "").replace(">", "")

    @property
    def cache_path(self) -> str:
        """The first folder that is looked at."""
        return str(folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel compiled for these types of arguments, or None when it has to be compiled."""
        target_context.refresh()
        key = kernel_key(self._kernel, sig, target_context.codegen().magic_tuple())
        for folder in folders():
            try:
                code = read_code(folder / self._file_name(key), key)
                if code is not None:
                    return CompileResult._rebuild(target_context, *pickle.loads(code))
            except Exception as error:  # whatever odd bytes and odd file systems end in
                _warn(folder, "read", error)
        _tell(logging.INFO, "compiling for this processor, which takes up to half a minute in all at the first use")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled in the first folder that takes it."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        key = kernel_key(self._kernel, sig, data.codegen.magic_tuple())
        failures: list[tuple[Path, Exception]] = []
        for folder in folders():
            try:
                write_code(folder / self._file_name(key), key, dumps(data._reduce()))
                _remove_old(folder, self._name)
                return
            except Exception as error:
                failures.append((folder, error))
        first, reason = failures[0]
        _warn(first, "kept", reason)

    def _file_name(self, key: str) -> str:
        return f"{self._name}-{key[:32]}.nbc"


def folders() -> list[Path]:
    """Where code is kept: the folder that the user names; or else beside the package, or in the
    user's cache."""
    if _settings.CACHE_DIR:
        return [Path(_settings.CACHE_DIR) / "bitext"]
    found = [_PACKAGE / "__pycache__" / "kernels"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [*found, Path(home) / "bitext"] if os.path.isabs(home) else found


def read_code(path: Path, key: str) -> bytes | None:
    """The code in a file, None when there is no file.

    Raises OSError, PermissionError when others could have written the file, ValueError when it is
    damaged.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        _check_owner(os.fstat(descriptor))
        digest, code = file.read(_HASH_BYTES), file.read()
    if digest != _digest(key, code):
        raise ValueError(f"{path.name} is damaged")
    return code


def write_code(path: Path, key: str, code: bytes) -> None:
    """Write a file under a temporary name and rename it. Raises OSError; then nothing is left
    behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(path, cache=True) as temporary,
        open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file,
    ):
        file.write(_digest(key, code) + code)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()


def _check_owner(file: os.stat_result) -> None:
    """Raise PermissionError for a file that somebody could have written who cannot write this
    package."""
    package = os.stat(_PACKAGE)
    others = file.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & ~package.st_mode
    if not stat.S_ISREG(file.st_mode):
        raise PermissionError("what is in a file's place is no file")
    if others or file.st_uid not in (os.geteuid(), 0, package.st_uid):
        raise PermissionError("other users can write what is in it")


def _remove_old(folder: Path, name: str) -> None:
    """Keep the newest files of a kernel, those that a killed process left unfinished among them."""
    with os.scandir(folder) as entries:
        files = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.startswith(f"{name}-")]
    for _, path in sorted(files, reverse=True)[KEPT:]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _warn(folder: Path, done: str, error: Exception) -> None:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    _tell(
        logging.WARNING,
        "%s: compiled kernels cannot be %s (%s) and are compiled anew; mend or delete the folder, or name another in "
        "NUMBA_CACHE_DIR",
        folder,
        done,
        reason,
    )


def _tell(level: int, message: str, *parts: object) -> None:
    """Log a message once a process."""
    if message not in _told:
        _told.add(message)
        log.log(level, message, *parts)
