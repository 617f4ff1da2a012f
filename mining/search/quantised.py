"""Unit vectors in eight bits, and inner products that are whole numbers.

Products of small whole numbers and their sums are exact, in whatever order they are added: such
similarities are the same on every machine, for any tile, library and number of threads, and where
they decide nothing has to be certified. Processors with instructions for bytes (AVX512-VNNI, AMX)
multiply them five times as fast as float32; elsewhere the bytes are multiplied as float32, whose
sums stay below 2^24 and are exact as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges

#: The entry of a unit vector, in units of 1/sqrt(d), that becomes 127; larger ones are cut. Entries
#: of sentence vectors reach 5.
LARGEST = 6.0


def scale(dim: int) -> np.float32:
    """What an entry of a unit vector of `dim` dimensions is multiplied with before it is
    rounded."""
    return np.float32(127 / min(1.0, LARGEST / math.sqrt(dim)))


@compiled
def _round_row(row, factor, out):  # type: ignore[no-untyped-def]
    low, high = np.float32(-127), np.float32(127)
    for j in range(row.shape[0]):
        out[j] = np.int8(min(max(np.rint(row[j] * factor), low), high))


@compiled
def _round_rows(rows, factor, out, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        _round_row(rows[i], factor, out[i])


@compiled
def round_directions(rows, centre, factor, out):  # type: ignore[no-untyped-def]
    """Subtract `centre` (d,) from `rows` (n, d), both float32 whole numbers, and write the
    directions that remain as int8; a row that is left with nothing becomes zero."""
    for i in range(rows.shape[0]):
        row = rows[i]
        squares = 0.0
        for j in range(row.shape[0]):
            row[j] -= centre[j]
            squares += np.float64(row[j]) * np.float64(row[j])
        length = np.sqrt(squares)
        _round_row(row, np.float32(factor / length if length > 0 else 0.0), out[i])


def quantise(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Float32 unit rows (n, d) as int8 in [-127, 127]: their entries times `scale`."""
    rows = np.require(vectors, np.float32, ["C", "W"])
    out = np.empty(rows.shape, np.int8)
    factor = scale(rows.shape[1])
    in_ranges(lambda a, b: _round_rows(rows, factor, out, a, b), len(rows), torch.get_num_threads(), 4096)
    return out


def _by_floats(left: NDArray[np.int8], right: NDArray[np.int8], out: NDArray[np.int32]) -> None:
    product = torch.from_numpy(left).float() @ torch.from_numpy(right).float().T
    torch.from_numpy(out).copy_(product)


def _by_bytes(left: NDArray[np.int8], right: NDArray[np.int8], out: NDArray[np.int32]) -> None:
    if left.shape[1] == 1:
        # torch takes the transpose of a single column for a row that lies apart, and multiplies
        # something else.
        _by_floats(left, right, out)
        return
    torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T, out=torch.from_numpy(out))


@functools.cache
def byte_products() -> bool:
    """Whether this processor and this torch multiply bytes fast, and rightly: the largest products
    are tried."""
    # Both are private names of torch: where they change, float32 gives the same numbers.
    supported: Any = getattr(torch.cpu, "_is_vnni_supported", None)
    if supported is None or not supported() or not hasattr(torch, "_int_mm"):
        return False
    signs = np.random.default_rng(0).choice(np.array([-127, -1, 1, 127], np.int8), size=(2, 70, 300))
    signs[:, :2] = 127
    out = np.empty((70, 70), np.int32)
    try:
        _by_bytes(signs[0], signs[1], out)
    except RuntimeError:
        return False
    return bool(np.array_equal(out, signs[0].astype(np.int32) @ signs[1].astype(np.int32).T))


def product() -> Callable[[NDArray[np.int8], NDArray[np.int8], NDArray[np.int32]], None]:
    """The function that writes all inner products of int8 rows (n, d) and (m, d) into int32 (n,
    m)."""
    return _by_bytes if byte_products() else _by_floats
