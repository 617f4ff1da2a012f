"""The space of the clusters: the covariance of both sides to a negative power, the same bytes on
every machine.

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

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges
from mining.search.quantised import scale

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
_BLOCK = 16_384


@compiled
def _sweep(matrix, pivot, row):  # type: ignore[no-untyped-def]
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
def _inverses(matrix, shifts, start, stop, out):  # type: ignore[no-untyped-def]
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
def _weighted(inverses, weights, identity, out):  # type: ignore[no-untyped-def]
    """Add up what `_inverses` gave, both halves, and `identity` times the unit matrix."""
    for i in range(out.shape[0]):
        for j in range(i + 1):
            total = identity if i == j else 0.0
            for s in range(weights.shape[0]):
                total -= weights[s] * inverses[s, i, j]
            out[i, j] = out[j, i] = total


@compiled
def _longest_column(matrix):  # type: ignore[no-untyped-def]
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
        for start in range(0, len(sample), _BLOCK):
            block = sample[start : start + _BLOCK].astype(np.float64)
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
