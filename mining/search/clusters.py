"""One clustering for both sides: trained on a sample, all in whole numbers.

Translations agree in rare words more than in frequent ones, so the space that is clustered is not
that of the vectors: each side is centred on its own mean, and multiplied with a power of the common
covariance that is half of the way to white (`whitening`). On BUCC this lost half as much F1 as
clusters of the plain vectors at the same cost.

Vectors, the transformation and the centroids are small whole numbers; every product of them is
exact, ties go to the lower number, and what is rounded is computed in a fixed order, without BLAS
or LAPACK. The same sample gives the same clusters, and a vector the same clusters, on every
machine.

Eigenvectors from LAPACK differ between processors in their last bits, and what is rounded after
them differs in whole numbers. The power is therefore a sum of inverses, of which every operation is
written out here in a fixed order:

    S^-a = sin(pi a) / pi  integral of t^-a (S + t I)^-1 dt  over t > 0

by the trapezoidal rule in log t (Hale, Higham and Trefethen 2008, Computing A^a, log(A) and related
matrix functions by contour integrals). Nodes that grow by a factor of 8 leave an error of exp(-2
pi^2 / log 8) = 8e-5, less than the rounding to whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import (
    Float32Matrix,
    Float64Cube,
    Float64Matrix,
    Float64Vector,
    Int8Matrix,
    Int64Vector,
    compiled,
    in_ranges,
)
from mining.devices import on_single_threads
from mining.search.topk import empty_keys, positions, update_rows
from mining.search.vectors import product, round_directions, scale

WHITENING = 0.35
#: Share of the mean variance that is added to every direction, so that an empty one does not blow
#: up.
RIDGE = 1e-3
#: Twice what a transformed entry may be, and so may each sum on the way to it: whole numbers, exact
#: in float32 below 2^24. Squares of such entries add up exactly in float64 for up to 2,048
#: dimensions.
LARGEST_ENTRY = 1 << 21
#: Factor from one node of the integral to the next, and that of their weights: _STEP ** (1 -
#: WHITENING), written out, since powers are not rounded alike everywhere.
_STEP, _GROWTH = 8.0, 3.8637453156993824
_SUMMED = 16_384


@compiled
def _sweep(matrix: Float64Matrix, pivot: int, row: Float64Vector) -> None:
    """One step of the inversion of a symmetric matrix in place, lower half only; `row` (d,) is
    working space."""
    dim = matrix.shape[0]
    for j in range(dim):
        row[j] = matrix[pivot, j] if j < pivot else matrix[j, pivot]
    own = row[pivot]
    row[pivot] = 0.0
    for i in range(dim):
        factor = row[i] / own
        entries = matrix[i, : i + 1]
        for j in range(i + 1):
            entries[j] -= factor * row[j]
    for j in range(dim):
        if j < pivot:
            matrix[pivot, j] = row[j] / own
        else:
            matrix[j, pivot] = row[j] / own
    matrix[pivot, pivot] = -1.0 / own


@compiled
def _inverses(matrix: Float64Matrix, shifts: Float64Vector, start: int, stop: int, out: Float64Cube) -> None:
    """Write -(matrix + shift I)^-1 for the shifts from `start` to `stop` into `out` (shifts, d, d),
    lower halves."""
    dim = matrix.shape[0]
    row = np.empty(dim)
    for s in range(start, stop):
        inverse = out[s]
        for i in range(dim):
            for j in range(i + 1):
                inverse[i, j] = matrix[i, j]
            inverse[i, i] += shifts[s]
        for pivot in range(dim):
            _sweep(inverse, pivot, row)


@compiled
def _weighted(inverses: Float64Cube, weights: Float64Vector, identity: float, out: Float64Matrix) -> None:
    """Add up what `_inverses` gave, both halves, and `identity` times the unit matrix."""
    for i in range(out.shape[0]):
        for j in range(i + 1):
            total = identity if i == j else 0.0
            for s in range(weights.shape[0]):
                total -= weights[s] * inverses[s, i, j]
            out[i, j] = out[j, i] = total


@compiled
def _longest_column(matrix: Float64Matrix) -> float:
    longest = 0.0
    for j in range(matrix.shape[1]):
        squares = 0.0
        for i in range(matrix.shape[0]):
            squares += matrix[i, j] * matrix[i, j]
        longest = max(longest, squares)
    return np.sqrt(longest)


def whitening_power(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d, d) float64: the covariance, with `RIDGE` of its mean variance added, to the power
    -`WHITENING`, times a number of no meaning."""
    dim = len(covariance)
    # The exact sum, rounded once.
    mean = max(math.fsum(covariance.diagonal().tolist()) / dim, 1e-9)
    ridge = RIDGE * mean
    # Below the least eigenvalue all nodes are as good as zero, above the largest their inverses as
    # good as 1 / t: both ends are geometric series.
    shifts, weights = [0.0, ridge / _STEP], [1.0 / (_GROWTH - 1.0), 1.0]
    while shifts[-1] < _STEP * (dim * mean + ridge):
        shifts.append(shifts[-1] * _STEP)
        weights.append(weights[-1] * _GROWTH)
    identity = weights[-1] / shifts[-1] * _GROWTH / (_STEP - _GROWTH)
    inverses, moved = np.empty((len(shifts), dim, dim)), np.array(shifts) + ridge
    in_ranges(lambda a, b: _inverses(covariance, moved, a, b, inverses), len(shifts), torch.get_num_threads())
    power = np.empty((dim, dim))
    _weighted(inverses, np.array(weights), identity, power)
    return power


def whitening(samples: tuple[NDArray[np.int8], NDArray[np.int8]]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The transformation (d, d) and the transformed mean of each side (2, d), float32 whole
    numbers, from quantised samples of source and target."""
    dim = samples[0].shape[1]
    sums, covariance = np.zeros((2, dim), np.int64), np.zeros((dim, dim))
    for side, sample in enumerate(samples):
        # Sums of whole numbers below 2^53: exact, however they are added.
        total, count = np.zeros((dim, dim)), max(len(sample), 1)
        for start in range(0, len(sample), _SUMMED):
            block = sample[start : start + _SUMMED].astype(np.float64)
            total += block.T @ block
            sums[side] += block.sum(0).astype(np.int64)
        mean = sums[side] / count
        covariance += (total / count - np.outer(mean, mean)) / 2
    power = whitening_power(covariance)
    factor = LARGEST_ENTRY / (2 * float(scale(dim)) * float(_longest_column(power)))
    transform = np.rint(power * factor).astype(np.int64)
    counts = np.array([[max(len(sample), 1)] for sample in samples])
    # Rounded halves up, without a division that could round before.
    centres = (2 * (sums @ transform) + counts) // (2 * counts)
    return transform.astype(np.float32), centres.astype(np.float32)


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
def _add_members(rows: Int8Matrix, labels: Int64Vector, sums: Float32Matrix, counts: Int64Vector) -> None:
    for i in range(rows.shape[0]):
        label = labels[i]
        counts[label] += 1
        for j in range(rows.shape[1]):
            sums[label, j] += rows[i, j]


def nearest_clusters(rows: NDArray[np.int8], centroids: NDArray[np.int8], count: int) -> NDArray[np.int64]:
    """The `count` nearest centroids of each transformed row (n, d): (n, count) int64, nearest
    first, ties by number."""
    keys = empty_keys(len(rows), min(count, len(centroids)))
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
