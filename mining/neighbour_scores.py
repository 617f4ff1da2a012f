"""Margin scores of neighbour lists, by the margins of `mining.margins`.

The loops over the lists are compiled around the one margin that is asked for, at its first use.
Where a margin is not defined the score is `UNDEFINED_SCORE`, and such pairs are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mining.compiled import compiled, in_ranges
from mining.margins import MARGINS, Margin
from mining.schemas import DECIMALS

#: Below the ratio of any pair that is as close as its neighbourhood; not an infinity, so that files
#: and means stay finite.
UNDEFINED_SCORE = 0.0
_SCALE = 10.0**DECIMALS
#: Rows of neighbours below which another thread does not pay.
_LEAST_ROWS = 16_384


class Scores(NamedTuple):
    """Margin scores: `values` (n, k) float64, -inf where a list ends; `undefined` counts the pairs
    whose margin is not defined."""

    values: NDArray[np.float64]
    undefined: int


class Best(NamedTuple):
    """The best neighbour of n lists: `indices` (n,) int64 its position in the list, -1 in an empty
    one; `scores` (n,) float64, -inf there; `undefined` as in `Scores`, of all neighbours."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    undefined: int


@functools.cache
def _all_kernel(margin: Margin) -> Callable[..., int]:
    """The loop that scores all neighbours of rows `start` to `stop` by a compiled `margin`; it
    returns the number of undefined scores."""

    @compiled
    def all_scores(
        ids: NDArray[np.int64],
        cosines: NDArray[np.float32],
        own_means: NDArray[np.float64],
        other_means: NDArray[np.float64],
        start: int,
        stop: int,
        scores: NDArray[np.float64],
    ) -> int:
        undefined = 0
        for row in range(start, stop):
            for rank in range(ids.shape[1]):
                if ids[row, rank] < 0:
                    scores[row, rank] = -np.inf
                    continue
                score = margin(np.float64(cosines[row, rank]), own_means[row], other_means[row, rank])
                if np.isnan(score):
                    undefined, score = undefined + 1, UNDEFINED_SCORE
                # Adding zero turns -0.0 into 0.0, so that equal scores are equal bytes.
                scores[row, rank] = np.rint(score * _SCALE) / _SCALE + 0.0
        return undefined

    return all_scores


@functools.cache
def _best_kernel(margin: Margin) -> Callable[..., int]:
    """The loop that keeps the best neighbour of each row; otherwise as `_all_kernel`."""

    @compiled
    def best_scores(
        ids: NDArray[np.int64],
        cosines: NDArray[np.float32],
        own_means: NDArray[np.float64],
        other_means: NDArray[np.float64],
        start: int,
        stop: int,
        index: NDArray[np.int64],
        scores: NDArray[np.float64],
    ) -> int:
        undefined = 0
        for row in range(start, stop):
            best, highest = -1, -np.inf
            for rank in range(ids.shape[1]):
                if ids[row, rank] < 0:
                    continue
                score = margin(np.float64(cosines[row, rank]), own_means[row], other_means[row, rank])
                if np.isnan(score):
                    undefined, score = undefined + 1, UNDEFINED_SCORE
                score = np.rint(score * _SCALE) / _SCALE + 0.0
                if best < 0 or score > highest or (score == highest and ids[row, rank] < ids[row, best]):
                    best, highest = rank, score
            index[row], scores[row] = best, highest
        return undefined

    return best_scores


def _run(kernel: Callable[..., int], lists: tuple[NDArray, ...], results: tuple[NDArray, ...], threads: int) -> int:
    """Call a kernel for ranges of rows on some threads; `lists` are brought into the one form for
    which it is compiled."""
    types = (np.int64, np.float32, np.float64, np.float64)
    arrays = [np.require(array, dtype, ("C", "W")) for array, dtype in zip(lists, types, strict=True)]
    counts: list[int] = []
    in_ranges(lambda a, b: counts.append(kernel(*arrays, a, b, *results)), len(arrays[0]), threads, _LEAST_ROWS)
    return sum(counts)


def list_scores(
    ids: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
    threads: int = 0,
) -> Scores:
    """Margin score of every neighbour, rounded to six decimals.

    `ids` (n, k) int64 with -1 where a list ends, `cosines` (n, k) float32, `own_means` (n,) float64
    those of the rows and `other_means` (n, k) float64 those of the neighbours; `threads` 0 uses
    every core. Raises ValueError for an unknown margin.
    """
    values = np.empty(ids.shape)
    kernel = _all_kernel(MARGINS[margin])
    return Scores(values, _run(kernel, (ids, cosines, own_means, other_means), (values,), threads))


def best_neighbours(
    ids: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
    threads: int = 0,
) -> Best:
    """The neighbour with the best margin score of each list; of equal scores that with the lowest
    id.

    Arguments and errors as for `list_scores`. One pass, without the scores of all neighbours in
    memory.
    """
    index, scores = np.empty(len(ids), dtype=np.int64), np.empty(len(ids))
    kernel = _best_kernel(MARGINS[margin])
    return Best(index, scores, _run(kernel, (ids, cosines, own_means, other_means), (index, scores), threads))


def pair_scores(
    cosines: ArrayLike, source_means: ArrayLike, target_means: ArrayLike, margin: str, threads: int = 0
) -> Scores:
    """Margin scores of n pairs: `list_scores` for three (n,) arrays; `values` is (n,) float64."""
    cosine, source, target = (np.asarray(values).reshape(-1, 1) for values in (cosines, source_means, target_means))
    values, undefined = list_scores(np.zeros(cosine.shape, np.int64), cosine, source[:, 0], target, margin, threads)
    return Scores(values[:, 0], undefined)


def neighbour_means(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean cosine of the neighbours that were found.

    `cosines` is (n, k) float32 with -inf where a list ends. Returns (n,) float64; 0 where a row has
    no neighbour.
    """
    found = np.isfinite(cosines)
    total = np.where(found, cosines, 0.0).astype(np.float64).sum(axis=1)
    return total / np.maximum(found.sum(axis=1), 1)
