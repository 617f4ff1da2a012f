"""One array over all shards of a side, read from the shards' files only where it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mining.errors import InputError


def open_array(path: str, dtype: np.dtype | type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Map an .npy file and check dtype and shape (None: any length); raises InputError when they differ."""
    try:
        array = np.load(path, mmap_mode="r" if 0 not in shape else None, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable array: {error}") from None
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if array.dtype != np.dtype(dtype) or not fits:
        raise InputError(f"{path}: holds {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}")
    return array


def write_blocks(file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[NDArray[Any]]) -> None:
    """Write an .npy file block by block, by plain writes: a full disk is an error there, and the end of the process
    under mapped memory."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).data)


class ShardedArray:
    """Arrays of consecutive row ranges as one. `firsts` are the row numbers at which the `parts` begin, `rows` the
    total."""

    def __init__(self, parts: Sequence[NDArray[Any]], firsts: Sequence[int], rows: int) -> None:
        self.parts, self.limits = parts, [*firsts, rows]

    def take(self, rows: NDArray[np.int64], fill: Any = 0) -> NDArray[Any]:
        """The entries of `rows` (any shape); `fill` where a row is -1. One pass over each shard that is needed."""
        flat = rows.ravel()
        first = self.parts[0]
        if len(self.parts) == 1 and flat.min(initial=0) >= 0:
            return first[flat].reshape(*rows.shape, *first.shape[1:])
        result = np.full((len(flat), *first.shape[1:]), fill, dtype=first.dtype)
        shard = np.searchsorted(self.limits, flat, side="right") - 1
        # Numbers of shards are small integers, which a stable sort deals out without comparing.
        order = np.argsort(shard.astype(np.int16 if len(self.parts) < 1 << 15 else np.int64), kind="stable")
        ends = np.searchsorted(shard[order], np.arange(len(self.parts) + 1)).tolist()
        for part, start, a, b in zip(self.parts, self.limits, ends, ends[1:], strict=False):
            if a < b:
                result[order[a:b]] = part[flat[order[a:b]] - start]
        return result.reshape(*rows.shape, *first.shape[1:])
