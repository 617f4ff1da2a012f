"""Flat arrays on disk: ``.npy`` files that grow by blocks, and are checked before they are
memory-mapped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeAlias

import numpy as np

from mining.errors import UsageError
from mining.io.files import file_hash


def write_header(file: BinaryIO, dtype: np.dtype | str, shape: tuple[int, ...]) -> None:
    """Write the header of an ``.npy`` file; numpy pads it so that the first axis may grow in
    place."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


class GrowingArray:
    """An ``.npy`` file of shape (n, *row) that grows by blocks of rows and is whole once closed."""

    def __init__(self, path: str | Path, dtype: str, row: tuple[int, ...] = ()) -> None:
        # A symbolic link in its place gives way: what it points to is never written.
        Path(path).unlink(missing_ok=True)
        self._file = open(path, "xb")  # noqa: SIM115 - closed by `close`
        self._dtype, self._row = np.dtype(dtype), row
        self.rows = 0
        write_header(self._file, dtype, (0, *row))

    def append(self, values: np.ndarray) -> None:
        """Add `values`, (m, *row), at the end."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.rows += len(values)

    def close(self) -> None:
        """Write the final number of rows."""
        with self._file:
            self._file.seek(0)
            write_header(self._file, self._dtype, (self.rows, *self._row))

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_array(path: str | Path, values: np.ndarray) -> None:
    """Write a whole array."""
    with GrowingArray(path, values.dtype.str, values.shape[1:]) as array:
        array.append(values)


ArrayFacts: TypeAlias = dict[str, str | int]
"""What is known of a finished file: dtype, length, bytes and hash."""


def array_facts(path: Path) -> ArrayFacts:
    """What ``open_array`` and ``check_contents`` check of a finished file: dtype, length, bytes and
    their hash."""
    values = np.load(path, mmap_mode="r")
    size = path.stat().st_size
    return {"dtype": values.dtype.name, "length": len(values), "bytes": size, "hash": file_hash(path)}


def check_contents(path: Path, facts: ArrayFacts, mend: str) -> None:
    """Raise UsageError when a file does not hold the bytes that were written; reads it whole."""
    if file_hash(path) != facts["hash"]:
        raise UsageError(f"{path}: is not the file that was written; {mend}")


def open_array(path: Path, facts: ArrayFacts, mend: str) -> np.ndarray:
    """A memory-mapped one-dimensional array; raises UsageError when the file is missing or not as
    `facts` say."""
    try:
        size = path.stat().st_size
        if size != facts["bytes"]:
            raise UsageError(f"{path}: has {size:,} bytes where {facts['bytes']:,} were written; {mend}")
        # An empty file body cannot be mapped.
        values: np.ndarray = np.load(path, mmap_mode="r" if facts["length"] else None)
    except FileNotFoundError:
        raise UsageError(f"{path}: is missing; {mend}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: damaged ({error}); {mend}") from None
    if values.shape != (facts["length"],) or values.dtype.name != facts["dtype"]:
        found = f"{values.dtype.name} of shape {values.shape}"
        raise UsageError(f"{path}: holds {found}, not {facts['length']:,} {facts['dtype']}; {mend}")
    return values
