"""One array over all shards of a side, read from the shards' files only where it is asked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.devices import PARSING
from mining.errors import InputError
from mining.io.arrays import write_header
from pipelines.records import FileList


def open_array(path: str, dtype: np.dtype | type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Map an .npy file and check dtype and shape (None: any length); raises InputError when they
    differ.

    The map holds no open file, of which a process may often have no more than 1,024.
    """
    try:
        array = _mapped(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable array: {error}") from None
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if array.dtype != np.dtype(dtype) or not fits:
        raise InputError(f"{path}: holds {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}")
    return array


def _mapped(path: str) -> NDArray[Any]:
    # numpy's own maps keep the file open as long as they live; Arrow's last as long as their
    # buffer.
    with pa.memory_map(path) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version of the format")
        with PARSING:
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        data = file.read_buffer()
    if fortran:
        raise ValueError("in Fortran order")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape)


def concatenated(
    paths: Sequence[str], dtype: np.dtype | type, row: tuple[int, ...], limits: Sequence[tuple[int, int]]
) -> NDArray[Any]:
    """The rows of `limits` (start, stop) of each file, one after the other; no more than one file
    is mapped at a time."""
    result = np.empty((sum(stop - start for start, stop in limits), *row), dtype)
    at = 0
    for path, (start, stop) in zip(paths, limits, strict=True):
        result[at : at + stop - start] = open_array(path, dtype, (None, *row))[start:stop]
        at += stop - start
    return result


def write_blocks(file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[NDArray[Any]]) -> None:
    """Write an .npy file block by block, by plain writes: a full disk is an error there, and the
    end of the process under mapped memory."""
    write_header(file, dtype, shape)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).data)


class Parts(Protocol):
    """The arrays of consecutive shards: a list of them, or `ShardFiles`."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> NDArray[Any]: ...


class ShardFiles:
    """The arrays in the files of a list; each is mapped when it is asked for, and kept by
    nobody."""

    def __init__(self, files: FileList, dtype: np.dtype | type, row: tuple[int, ...] = ()) -> None:
        self.files, self.dtype, self.row = files, dtype, row

    def __len__(self) -> int:
        return len(self.files.paths)

    def __getitem__(self, number: int, /) -> NDArray[Any]:
        return open_array(self.files.paths[number], self.dtype, (self.files.rows[number], *self.row))

    def all(self) -> list[NDArray[Any]]:
        """All of them mapped, for those who come back often."""
        return [self[number] for number in range(len(self))]


class ShardedArray:
    """Arrays of consecutive row ranges as one. `firsts` are the row numbers at which the `parts`
    begin, `rows` the total."""

    def __init__(self, parts: Parts, firsts: Sequence[int], rows: int) -> None:
        self.parts, self.limits = parts, [*firsts, rows]

    def take(self, rows: NDArray[np.int64], fill: Any = 0) -> NDArray[Any]:
        """The entries of `rows` (any shape); `fill` where a row is -1. One pass over each shard
        that is needed."""
        flat = rows.ravel()
        first = self.parts[0]
        if len(self.parts) == 1 and flat.min(initial=0) >= 0:
            return first[flat].reshape(*rows.shape, *first.shape[1:])
        result = np.full((len(flat), *first.shape[1:]), fill, dtype=first.dtype)
        shard = np.searchsorted(self.limits, flat, side="right") - 1
        # Numbers of shards are small integers, which a stable sort deals out without comparing.
        order = np.argsort(shard.astype(np.int16 if len(self.parts) < 1 << 15 else np.int64), kind="stable")
        ends = np.searchsorted(shard[order], np.arange(len(self.parts) + 1)).tolist()
        for number, (a, b) in enumerate(itertools.pairwise(ends)):
            if a < b:
                result[order[a:b]] = self.parts[number][flat[order[a:b]] - self.limits[number]]
        return result.reshape(*rows.shape, *first.shape[1:])
