"""Margin scores of candidate pairs (Artetxe and Schwenk 2019, section 3.1; the 2019 paper of Wieting et al., section
4.3).

With k nearest neighbours on each side, ``b = (mean_k(x) + mean_k(y)) / 2`` is how similar x and y are to anything at
all. ``ratio`` divides the cosine by b, ``distance`` subtracts b, ``absolute`` leaves the cosine as it is.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Margin = Literal["ratio", "distance", "absolute"]
MARGINS: tuple[str, ...] = get_args(Margin)

#: Scores and cosines are written and compared with this many decimals.
DECIMALS = 6
#: A ratio over a smaller denominator says nothing (two texts far from everything); it gets LOW_SCORE instead.
DENOMINATOR_FLOOR = 1e-3
#: Below the ratio of any pair that is as close as its neighbourhood; not an infinity, so that files and means stay
#: finite.
LOW_SCORE = 0.0


def neighbour_means(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean cosine of the neighbours that were found.

    `cosines` is (n, k) float32 with -inf where no neighbour exists. Returns (n,) float64; 0 where a row has none.
    """
    found = np.isfinite(cosines)
    total = np.where(found, cosines, 0.0).astype(np.float64).sum(axis=1)
    return total / np.maximum(found.sum(axis=1), 1)


def margin_scores(
    cosine: ArrayLike, source_mean: ArrayLike, target_mean: ArrayLike, kind: str = "ratio"
) -> NDArray[np.float64]:
    """Margin score of each pair, rounded to six decimals; the three arrays broadcast. Raises ValueError for another
    kind."""
    cosine = np.asarray(cosine, dtype=np.float64)
    baseline = (np.asarray(source_mean, dtype=np.float64) + np.asarray(target_mean, dtype=np.float64)) / 2
    if kind == "absolute":
        scores = np.broadcast_to(cosine, np.broadcast_shapes(cosine.shape, baseline.shape))
    elif kind == "distance":
        scores = cosine - baseline
    elif kind == "ratio":
        usable = baseline > DENOMINATOR_FLOOR
        scores = np.where(usable, cosine / np.where(usable, baseline, 1.0), LOW_SCORE)
    else:
        raise ValueError(f"unknown margin '{kind}': use one of {', '.join(MARGINS)}")
    # Adding zero turns -0.0 into 0.0, so that equal scores are equal bytes.
    return np.round(scores, DECIMALS) + 0.0


def count_floored(source_mean: ArrayLike, target_mean: ArrayLike) -> int:
    """How many pairs have a denominator at or below the floor, and so a defined low ratio."""
    baseline = (np.asarray(source_mean, dtype=np.float64) + np.asarray(target_mean, dtype=np.float64)) / 2
    return int((baseline <= DENOMINATOR_FLOOR).sum())
