"""Unit vectors as they are kept on disk, and the one definition of their cosine.

Vectors are stored as float16. A matrix product over tiles rounds differently with tile shape, library and device, so
it only proposes neighbours; what is compared, cut and written is `exact_cosines`: a float64 sum in one fixed order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STORED = np.dtype("<f2")
#: Rows gathered at a time when cosines are recomputed: two float64 blocks of this many rows stay in the cache.
_BLOCK = 2048


def to_stored(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Float32 unit rows (n, d) as the float16 that is written to disk."""
    return np.ascontiguousarray(vectors, dtype=STORED)


def from_stored(stored: NDArray[np.float16]) -> NDArray[np.float32]:
    """Stored float16 rows (n, d) as float32 unit rows: rounding to float16 is undone in length. Zero rows stay zero."""
    vectors = np.empty(stored.shape, dtype=np.float32)
    for start in range(0, len(stored), _BLOCK):
        block = stored[start : start + _BLOCK].astype(np.float64)
        norms = np.sqrt(np.add.reduce(block * block, axis=1))
        vectors[start : start + _BLOCK] = block / np.where(norms > 0, norms, 1.0)[:, None]
    return vectors


def exact_cosines(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right_rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Cosine of ``left[left_rows[i]]`` and ``right[right_rows[i]]`` for each i: (p,) float32 in [-1, 1].

    `left` (n, d) and `right` (m, d) are float32 unit rows. Products of float32 are exact in float64 and each row is
    summed by itself, so a pair has one value wherever and with whatever neighbours it is computed.
    """
    cosines = np.empty(len(left_rows), dtype=np.float32)
    for start in range(0, len(left_rows), _BLOCK):
        stop = start + _BLOCK
        product = left[left_rows[start:stop]].astype(np.float64)
        product *= right[right_rows[start:stop]]
        cosines[start:stop] = np.add.reduce(product, axis=1)
    return np.clip(cosines, -1.0, 1.0, out=cosines)
