"""Margin scores of candidate pairs (Artetxe and Schwenk 2019, section 3.1; the 2019 paper of
Wieting et al., section 4.3).

With k nearest neighbours on each side, ``b = (mean_k(x) + mean_k(y)) / 2`` is how similar x and y
are to anything at all. ``ratio`` divides the cosine by b, ``distance`` subtracts b, ``absolute``
leaves the cosine as it is.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mining.compiled import compiled, in_ranges

Margin = Literal["ratio", "distance", "absolute"]
MARGINS: tuple[str, ...] = get_args(Margin)

#: Scores and cosines are written and compared with this many decimals.
DECIMALS = 6
#: A ratio over a smaller denominator says nothing (two texts far from everything); it gets
#: LOW_SCORE instead.
DENOMINATOR_FLOOR = 1e-3
#: Below the ratio of any pair that is as close as its neighbourhood; not an infinity, so that files
#: and means stay finite.
LOW_SCORE = 0.0


def neighbour_means(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean cosine of the neighbours that were found.

    `cosines` is (n, k) float32 with -inf where no neighbour exists. Returns (n,) float64; 0 where a
    row has none.
    """
    found = np.isfinite(cosines)
    total = np.where(found, cosines, 0.0).astype(np.float64).sum(axis=1)
    return total / np.maximum(found.sum(axis=1), 1)


def margin_scores(
    cosine: ArrayLike, source_mean: ArrayLike, target_mean: ArrayLike, kind: str = "ratio"
) -> NDArray[np.float64]:
    """Margin score of each pair, rounded to six decimals; the three arrays broadcast. Raises
    ValueError for another kind.

    `list_scores` gives the same numbers for whole neighbour lists, compiled.
    """
    _code(kind)
    cosine = np.asarray(cosine, dtype=np.float64)
    baseline = (np.asarray(source_mean, dtype=np.float64) + np.asarray(target_mean, dtype=np.float64)) / 2
    if kind == "absolute":
        scores = np.broadcast_to(cosine, np.broadcast_shapes(cosine.shape, baseline.shape))
    elif kind == "distance":
        scores = cosine - baseline
    else:
        usable = baseline > DENOMINATOR_FLOOR
        scores = np.where(usable, cosine / np.where(usable, baseline, 1.0), LOW_SCORE)
    # Adding zero turns -0.0 into 0.0, so that equal scores are equal bytes.
    return np.round(scores, DECIMALS) + 0.0


def _code(kind: str) -> int:
    if kind not in MARGINS:
        raise ValueError(f"unknown margin '{kind}': use one of {', '.join(MARGINS)}")
    return MARGINS.index(kind)


_RATIO, _DISTANCE = MARGINS.index("ratio"), MARGINS.index("distance")
_SCALE = 10.0**DECIMALS
#: Rows of neighbours below which another thread does not pay.
_LEAST_ROWS = 16_384


@compiled
def score_kernel(cosine: float, own_mean: float, other_mean: float, kind: int) -> float:
    """`margin_scores` of one pair, the same operations in the same order; `kind` is the place in
    `MARGINS`."""
    score = cosine
    if kind == _RATIO:
        baseline = (own_mean + other_mean) / 2
        score = cosine / baseline if baseline > DENOMINATOR_FLOOR else LOW_SCORE
    elif kind == _DISTANCE:
        score = cosine - (own_mean + other_mean) / 2
    return np.rint(score * _SCALE) / _SCALE + 0.0


@compiled
def _list_scores(neighbours, cosines, own_means, other_means, kind, start, stop, scores):  # type: ignore[no-untyped-def]
    for row in range(start, stop):
        own = own_means[row]
        for place in range(neighbours.shape[1]):
            if neighbours[row, place] < 0:
                scores[row, place] = -np.inf
            else:
                scores[row, place] = score_kernel(np.float64(cosines[row, place]), own, other_means[row, place], kind)


def list_scores(
    neighbours: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    kind: str = "ratio",
    threads: int = 0,
) -> NDArray[np.float64]:
    """Margin score of every neighbour, (n, k) float64, -inf where there is none (`neighbours` is
    -1).

    `neighbours` (n, k) int64, `cosines` (n, k) float32, `own_means` (n,) float64 those of the rows
    and `other_means` (n, k) float64 those of the neighbours. Raises ValueError for another kind.
    """
    code = _code(kind)
    n, c, own, other = _prepared(neighbours, cosines, own_means, other_means)
    scores = np.empty(neighbours.shape)
    in_ranges(lambda a, b: _list_scores(n, c, own, other, code, a, b, scores), len(scores), threads, _LEAST_ROWS)
    return scores


@compiled
def _best(neighbours, cosines, own_means, other_means, kind, start, stop, places, scores):  # type: ignore[no-untyped-def]
    for row in range(start, stop):
        own, best, lowest = own_means[row], -1, -np.inf
        for place in range(neighbours.shape[1]):
            other = neighbours[row, place]
            if other < 0:
                continue
            score = score_kernel(np.float64(cosines[row, place]), own, other_means[row, place], kind)
            if best < 0 or score > lowest or (score == lowest and other < neighbours[row, best]):
                best, lowest = place, score
        places[row], scores[row] = best, lowest


def best_neighbours(
    neighbours: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    kind: str = "ratio",
    threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The place (n,) int64 of the neighbour with the best margin score in each list, and that score
    (n,) float64.

    Arguments and errors as for `list_scores`. Equal scores go to the lower row number; the place is
    -1 and the score -inf where a list is empty. One pass, without the scores of all neighbours in
    memory.
    """
    code = _code(kind)
    n, c, own, other = _prepared(neighbours, cosines, own_means, other_means)
    places, scores = np.empty(len(neighbours), dtype=np.int64), np.empty(len(neighbours))
    in_ranges(lambda a, b: _best(n, c, own, other, code, a, b, places, scores), len(scores), threads, _LEAST_ROWS)
    return places, scores


def _prepared(*arrays: NDArray) -> tuple[NDArray, ...]:
    """The arguments in the one form for which the kernels are compiled."""
    return tuple(
        np.require(array, dtype, ("C", "W"))
        for array, dtype in zip(arrays, (np.int64, np.float32, np.float64, np.float64), strict=True)
    )


def count_floored(source_mean: ArrayLike, target_mean: ArrayLike) -> int:
    """How many pairs have a denominator at or below the floor, and so a defined low ratio."""
    baseline = (np.asarray(source_mean, dtype=np.float64) + np.asarray(target_mean, dtype=np.float64)) / 2
    return int((baseline <= DENOMINATOR_FLOOR).sum())
