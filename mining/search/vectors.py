"""Unit vectors as they are kept on disk and searched, and the one definition of their cosine.

Vectors are stored as float16. A matrix product over tiles rounds differently with tile shape,
library and device, so it only proposes neighbours; what is compared, cut and written is
`exact_cosines`: a float64 sum in one fixed order.

Quantised to eight bits, vectors have inner products that are whole numbers. These and their sums
are exact, in whatever order they are added: the same on every machine, for any tile, library and
number of threads, and where they decide nothing has to be certified. Processors with instructions
for bytes (AVX512-VNNI, AMX) multiply them five times as fast as float32; elsewhere the bytes are
multiplied as float32, whose sums stay below 2^24 and are exact as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import (
    Float32Matrix,
    Float32Vector,
    Float64Vector,
    Int8Matrix,
    Int8Vector,
    Int64Vector,
    compiled,
    in_ranges,
)
from mining.search.topk import Neighbours, no_neighbours

STORED = np.dtype("<f2")
#: Partial sums of a cosine: the products of every eighth dimension.
LANES = 8
#: Rows converted at a time, which stay in the cache.
_BLOCK = 512
#: Pairs worth a thread of their own.
_PAIRS = 4096


def to_stored(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Float32 unit rows (n, d) as the float16 that is written to disk."""
    # Torch rounds as numpy does, and ten times as fast.
    rows = torch.from_numpy(np.require(vectors, np.float32, ["C", "W"]))
    return rows.half().numpy().astype(STORED, copy=False)


@compiled
def products_for(dim: int) -> Float64Vector:
    """Working space of `cosine`: float64 zeros, rounded up to whole lanes."""
    return np.zeros(dim + LANES - 1 - (dim - 1) % LANES, np.float64)


@compiled
def _multiply(left: Float32Vector, right: Float32Vector, products: Float64Vector) -> None:
    for j in range(left.shape[0]):
        products[j] = np.float64(left[j]) * np.float64(right[j])


@compiled
def lanes_sum(products: Float64Vector) -> float:
    """The sum of float64 products: eight partial sums in the order of the dimensions, then those in
    pairs."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, products.shape[0], LANES):
        a += products[j]
        b += products[j + 1]
        c += products[j + 2]
        d += products[j + 3]
        e += products[j + 4]
        f += products[j + 5]
        g += products[j + 6]
        h += products[j + 7]
    return ((a + e) + (c + g)) + ((b + f) + (d + h))


@compiled
def cosine(left: Float32Vector, right: Float32Vector, products: Float64Vector) -> np.float32:
    """Cosine of two float32 unit rows as float32 in [-1, 1]; `products` is working space from
    `products_for`."""
    _multiply(left, right, products)
    return np.float32(min(max(lanes_sum(products), -1.0), 1.0))


@compiled
def _cosines(
    left: Float32Matrix,
    right: Float32Matrix,
    left_rows: Int64Vector,
    right_rows: Int64Vector,
    out: Float32Vector,
    start: int,
    stop: int,
) -> None:
    products = products_for(left.shape[1])
    for p in range(start, stop):
        out[p] = cosine(left[left_rows[p]], right[right_rows[p]], products)


def exact_cosines(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right_rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Cosine of ``left[left_rows[i]]`` and ``right[right_rows[i]]`` for each i: (p,) float32 in
    [-1, 1].

    `left` (n, d) and `right` (m, d) are float32 unit rows. Products of float32 are exact in
    float64; those of every eighth dimension are added in the order of the dimensions, giving eight
    sums, and these as ((0+4) + (2+6)) + ((1+5) + (3+7)). So a pair has one value wherever and with
    whatever neighbours it is computed.
    """
    sides = np.ascontiguousarray(left, np.float32), np.ascontiguousarray(right, np.float32)
    rows = np.require(left_rows, np.int64, ["C", "W"]), np.require(right_rows, np.int64, ["C", "W"])
    cosines = np.empty(len(left_rows), dtype=np.float32)
    work = functools.partial(_cosines, *sides, *rows, cosines)
    in_ranges(work, len(cosines), torch.get_num_threads(), _PAIRS)
    return cosines


def reference_cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """What `exact_cosines` gives for pairs of rows (p, d), by numpy alone."""
    dim = left.shape[1]
    products = np.zeros((len(left), -(-dim // LANES), LANES))
    products.reshape(len(left), -1)[:, :dim] = left.astype(np.float64) * right.astype(np.float64)
    sums = np.zeros((len(left), LANES))
    for lanes in range(products.shape[1]):
        sums += products[:, lanes]
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    return np.clip(sums[:, 0], -1.0, 1.0).astype(np.float32)


@compiled
def _scale_rows(rows: Float32Matrix, out: Float32Matrix) -> None:
    """Divide float32 rows by their lengths, in float64; rows of zeros stay zero."""
    products = products_for(rows.shape[1])
    for i in range(rows.shape[0]):
        _multiply(rows[i], rows[i], products)
        norm = np.sqrt(lanes_sum(products))
        if norm == 0.0:
            norm = 1.0
        for j in range(rows.shape[1]):
            out[i, j] = np.float32(np.float64(rows[i, j]) / norm)


def from_stored(stored: NDArray[np.float16]) -> NDArray[np.float32]:
    """Stored float16 rows (n, d) as float32 unit rows: rounding to float16 is undone in length.
    Zero rows stay zero."""
    vectors = np.empty(stored.shape, dtype=np.float32)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            rows = np.array(stored[first:last], dtype=STORED, order="C", copy=True)
            _scale_rows(torch.from_numpy(rows).float().numpy(), vectors[first:last])

    in_ranges(work, len(stored), torch.get_num_threads(), _BLOCK)
    return vectors


class VectorShard(NamedTuple):
    """The searchable part of a shard of n rows that starts at row number `first`.

    `valid` (n,) bool; `vectors` (valid rows, d) float32 unit rows, in order.
    """

    first: int
    valid: NDArray[np.bool_]
    vectors: NDArray[np.float32]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row numbers of the valid rows."""
        return np.flatnonzero(self.valid) + self.first


def vector_shard(first: int, valid: NDArray[np.bool_], stored: NDArray[np.float16]) -> VectorShard:
    """A shard from stored float16 vectors (n, d) and their validity (n,)."""
    return VectorShard(first, valid, from_stored(stored[valid]))


def spread(found: Neighbours, queries: VectorShard, base: VectorShard, k: int) -> Neighbours:
    """Lists over the valid rows of both shards as lists over all rows of `queries`, ids being row
    numbers of `base`."""
    rows = base.rows
    lists = no_neighbours(len(queries.valid), k)
    if len(rows):
        lists.ids[queries.valid] = np.where(found.ids >= 0, rows[found.ids], -1)
    lists.cosines[queries.valid] = found.cosines
    return lists


#: The entry of a unit vector, in units of 1/sqrt(d), that becomes 127; larger ones are cut. Entries
#: of sentence vectors reach 5.
LARGEST = 6.0


def scale(dim: int) -> np.float32:
    """What an entry of a unit vector of `dim` dimensions is multiplied with before it is
    rounded."""
    return np.float32(127 / min(1.0, LARGEST / math.sqrt(dim)))


@compiled
def _round_row(row: Float32Vector, factor: np.float32, out: Int8Vector) -> None:
    low, high = np.float32(-127), np.float32(127)
    for j in range(row.shape[0]):
        out[j] = np.int8(min(max(np.rint(row[j] * factor), low), high))


@compiled
def _round_rows(rows: Float32Matrix, factor: np.float32, out: Int8Matrix, start: int, stop: int) -> None:
    for i in range(start, stop):
        _round_row(rows[i], factor, out[i])


@compiled
def round_directions(rows: Float32Matrix, centre: Float32Vector, factor: np.float32, out: Int8Matrix) -> None:
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
