"""Reading files that may come from anywhere: regular files only, each read once, and never more
than it holds."""

from __future__ import annotations

import io
import itertools
import json
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mining.errors import UsageError
from mining.io.atomic import take_lock

MOST_JSON = 1 << 26
"""Bytes of a description or a vocabulary; the largest known have some megabytes."""
_LONGEST_NAME = 80


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


@contextmanager
def locked(folder: Path, taken: str) -> Iterator[None]:
    """Hold a folder; the lock goes with the process, so a killed one leaves none behind.

    Raises UsageError with the words `taken` where another process holds it. A file system that
    knows no locks is warned about, and work goes on.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not take_lock(handle, folder):
            raise UsageError(f"{folder}: {taken}")
        yield
    finally:
        os.close(handle)


def parse_json(data: bytes) -> Any:
    """What JSON in UTF-8 says; raises ValueError with the reason when it is faulty or nested too
    deeply."""
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def short(name: str) -> str:
    """A name of a file's own for a message, at most some 80 characters of it."""
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."


def quoted(value: object) -> str:
    """A value of a file for a message, as Python writes it, as short as a name."""
    if isinstance(value, (str, bytes)):
        return short(repr(value[:_LONGEST_NAME]))
    if isinstance(value, (list, tuple, dict, set)) and len(value) > _LONGEST_NAME:
        return f"{type(value).__name__} of {len(value):,}"
    try:
        return short(repr(value))
    except (ValueError, RecursionError):  # a whole number of thousands of digits, a list in itself
        return type(value).__name__


def listed(names: Collection[object]) -> str:
    """The first ten names."""
    first = [short(str(name)) for name in itertools.islice(names, 10)]
    return ", ".join(first) + (", ..." if len(names) > len(first) else "") if first else "none"
