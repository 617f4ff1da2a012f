"""Reading files that may come from anywhere: regular files only, each read once, and never more
than it holds."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from pathlib import Path

import numpy as np

from mining.errors import UsageError

MOST_JSON = 1 << 26
"""Bytes of a description or a vocabulary; the largest known have some megabytes."""
_HASH_PIECE = 1 << 20


def read_buffer(path: Path, most: int | None = None) -> np.ndarray:
    """The bytes of a file, (size,) uint8, read once; later changes of the file do not touch them.

    Raises UsageError when it is no regular file (opening a pipe or a device would wait for ever),
    has more than `most` bytes, or becomes shorter meanwhile.
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise UsageError(f"{path}: has {size:,} bytes, more than {most:,}: not what belongs here")
        data, done = np.empty(size, np.uint8), 0
        view = data.data
        try:
            while done < size and (read := file.readinto(view[done:])):
                done += read
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if done < size:
        raise UsageError(f"{path}: became shorter while it was read; run the command again")
    return data


def map_buffer(path: Path) -> np.ndarray:
    """The bytes of a file, (size,) uint8, mapped into memory; raises UsageError when it is no
    regular file."""
    with _opened(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return np.zeros(0, np.uint8)
        return np.memmap(file, np.uint8, "c")  # torch asks for what may be written to


def _opened(path: Path) -> io.FileIO:
    """The file, opened; UsageError when it is no regular file."""
    try:
        # Opening a pipe waits for its other end, unless it is asked not to.
        file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UsageError(f"{path}: not a regular file; name a file")
    return file


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The bytes of a file; see `read_buffer`."""
    return read_buffer(path, most).tobytes()


def new_digest() -> hashlib.blake2b:
    """An empty digest, for a reader to fill: its ``hexdigest()`` is then the `file_hash` of what
    was read."""
    return hashlib.blake2b(digest_size=16)


def file_hash(path: str | os.PathLike[str]) -> str:
    """BLAKE2b digest (128 bits, 32 hexadecimal digits) of the bytes of the file as it lies on disk.

    Raises UsageError if it cannot be read.
    """
    digest = new_digest()
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(_HASH_PIECE):
                digest.update(piece)
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()
