"""One clustering for both sides: trained on a sample, all in whole numbers.

Translations agree in rare words more than in frequent ones, so the space that is clustered is not
that of the vectors: each side is centred on its own mean, and multiplied with a power of the common
covariance that is half of the way to white (`whitening`). On BUCC this lost half as much F1 as
clusters of the plain vectors at the same cost.

Vectors, the transformation and the centroids are small whole numbers; every product of them is
exact, ties go to the lower number, and what is rounded is computed in a fixed order, without BLAS
or LAPACK. The same sample gives the same clusters, and a vector the same clusters, on every
machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled
from mining.devices import on_single_threads
from mining.search.key_lists import empty_lists, positions, update_rows
from mining.search.quantised import product, round_directions, scale
from mining.search.whitening import whitening

ITERATIONS = 5
#: Sampled rows for each cluster.
ROWS_PER_CLUSTER = 32
#: Rows and centroids of a tile of the assignment: the tile (4 bytes each) stays in the cache.
_ROWS, _CENTROIDS = 512, 1024
#: Rows transformed at a time.
_BLOCK = 2048


class Clusters(NamedTuple):
    """What both sides are divided by.

    `transform` (d, d) float32 whole numbers, `centres` (2, d) float32 whole numbers: the
    transformed means of source and target; `centroids` (K, d) int8; `groups` (K,) int32: the group
    of each cluster, numbered from 0.
    """

    transform: NDArray[np.float32]
    centres: NDArray[np.float32]
    centroids: NDArray[np.int8]
    groups: NDArray[np.int32]


def transformed(
    vectors: NDArray[np.int8], transform: NDArray[np.float32], centre: NDArray[np.float32]
) -> NDArray[np.int8]:
    """Quantised vectors (n, d) in the space of the clusters, quantised again."""
    out = np.empty(vectors.shape, np.int8)
    matrix, factor = torch.from_numpy(transform), scale(vectors.shape[1])

    def begin() -> Callable[[int], None]:
        def work(start: int) -> None:
            rows = torch.from_numpy(vectors[start : start + _BLOCK]).float() @ matrix
            round_directions(rows.numpy(), centre, factor, out[start : start + _BLOCK])

        return work

    on_single_threads(range(0, len(vectors), _BLOCK), begin)
    return out


@compiled
def _add_members(rows, labels, sums, counts):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        label = labels[i]
        counts[label] += 1
        for j in range(rows.shape[1]):
            sums[label, j] += rows[i, j]


def nearest_clusters(rows: NDArray[np.int8], centroids: NDArray[np.int8], count: int) -> NDArray[np.int64]:
    """The `count` nearest centroids of each transformed row (n, d): (n, count) int64, nearest
    first, ties by number."""
    keys = empty_lists(len(rows), min(count, len(centroids)))
    multiply = product()

    def begin() -> Callable[[int], None]:
        memory = np.empty(_ROWS * _CENTROIDS, np.int32)

        def work(start: int) -> None:
            block = rows[start : start + _ROWS]
            for first in range(0, len(centroids), _CENTROIDS):
                part = centroids[first : first + _CENTROIDS]
                tile = memory[: len(block) * len(part)].reshape(len(block), len(part))
                multiply(block, part, tile)
                update_rows(tile, first, keys[start : start + len(block)])

        return work

    on_single_threads(range(0, len(rows), _ROWS), begin)
    return positions(keys)


def _k_means(sample: NDArray[np.int8], count: int) -> NDArray[np.int8]:
    """Centroids (count, d) after some rounds of Lloyd's algorithm on the sphere, begun at evenly
    spaced rows."""
    centroids = sample[np.arange(count) * len(sample) // count].copy()
    for _ in range(ITERATIONS):
        sums, counts = np.zeros(centroids.shape, np.float32), np.zeros(count, np.int64)
        _add_members(sample, nearest_clusters(sample, centroids, 1)[:, 0], sums, counts)
        moved = np.empty_like(centroids)
        round_directions(sums, np.zeros(sample.shape[1], np.float32), scale(sample.shape[1]), moved)
        centroids = np.where((counts > 0)[:, None], moved, centroids)
    return centroids


def _shortened(direction: NDArray[np.int64]) -> NDArray[np.int64]:
    """A sum of rows (d,) at a length of about 1000, in whole numbers throughout: sums of squares
    may pass 2^53."""
    length = max(1, math.isqrt(int(direction @ direction)))
    return (2000 * direction + length) // (2 * length)


def _group(centroids: NDArray[np.int8], weights: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    """Numbers of `count` groups of near clusters with about equal weights: halved again and again
    across the direction that two of the farthest centroids span."""
    groups = np.zeros(len(centroids), np.int32)
    parts = [np.arange(len(centroids))]
    while len(parts) < count:
        # The heaviest part is cut.
        heaviest = int(np.argmax([weights[part].sum() if len(part) > 1 else -1 for part in parts]))
        part = parts[heaviest]
        if len(part) < 2:
            break
        rows = centroids[part].astype(np.int64)
        far = rows @ rows.sum(0)
        one = rows[np.argmin(far)]
        other = rows[np.argmin(rows @ one)]
        for _ in range(4):
            near = rows @ one >= rows @ other
            one, other = (rows[near].sum(0) if near.any() else one), (rows[~near].sum(0) if not near.all() else other)
            one, other = _shortened(one), _shortened(other)
        order = np.argsort(rows @ (one - other), kind="stable")
        total = np.cumsum(weights[part][order])
        middle = int(np.clip(np.searchsorted(total, total[-1] / 2), 1, len(part) - 1))
        parts[heaviest : heaviest + 1] = [np.sort(part[order[:middle]]), np.sort(part[order[middle:]])]
    for number, part in enumerate(parts):
        groups[part] = number
    return groups


def train_clusters(source: NDArray[np.int8], target: NDArray[np.int8], count: int, groups: int = 1) -> Clusters:
    """`count` clusters in `groups` groups from quantised samples of both sides."""
    transform, centres = whitening((source, target))
    sample = np.concatenate(
        [transformed(rows, transform, centre) for rows, centre in zip((source, target), centres, strict=True)]
    )
    centroids = _k_means(sample, min(count, len(sample)))
    weights = np.bincount(nearest_clusters(sample, centroids, 1)[:, 0], minlength=len(centroids))
    return Clusters(transform, centres, centroids, _group(centroids, weights, groups))
