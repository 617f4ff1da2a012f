"""Unit vectors as they are kept on disk, and the one definition of their cosine.

Vectors are stored as float16. A matrix product over tiles rounds differently with tile shape,
library and device, so it only proposes neighbours; what is compared, cut and written is
`exact_cosines`: a float64 sum in one fixed order.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges

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
def products_for(dim: Any) -> Any:
    """Working space of `cosine`: float64 zeros, rounded up to whole lanes."""
    return np.zeros(dim + LANES - 1 - (dim - 1) % LANES, np.float64)


@compiled
def _multiply(left: Any, right: Any, products: Any) -> None:
    for j in range(left.shape[0]):
        products[j] = np.float64(left[j]) * np.float64(right[j])


@compiled
def lanes_sum(products: Any) -> Any:
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
def cosine(left: Any, right: Any, products: Any) -> Any:
    """Cosine of two float32 unit rows as float32 in [-1, 1]; `products` is working space from
    `products_for`."""
    _multiply(left, right, products)
    return np.float32(min(max(lanes_sum(products), -1.0), 1.0))


@compiled
def _cosines(left: Any, right: Any, left_rows: Any, right_rows: Any, out: Any, start: Any, stop: Any) -> None:
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
    places = np.require(left_rows, np.int64, ["C", "W"]), np.require(right_rows, np.int64, ["C", "W"])
    cosines = np.empty(len(left_rows), dtype=np.float32)
    work = functools.partial(_cosines, *sides, *places, cosines)
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
def _scale_rows(rows: Any, out: Any) -> None:
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
