"""From scored candidates to aligned pairs: ``forward``, ``backward``, ``intersection`` and ``max``.

A candidate is one row of `CANDIDATE` dtype. Every source row contributes its best target and every target row its best
source (LASER's mining takes the same ones). They are kept as *runs*, each sorted by (score descending, source, target),
one a shard and direction; `match` reads the runs in bands of falling score, so memory is bounded by the band and one
flag a row.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mining.margin import margin_scores

Strategy = Literal["forward", "backward", "intersection", "max"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
FORWARD, BACKWARD, BOTH = 1, 2, 3
DIRECTIONS = {FORWARD: "forward", BACKWARD: "backward", BOTH: "both"}

CANDIDATE = np.dtype(
    [
        ("source", "<i8"),
        ("target", "<i8"),
        ("score", "<f8"),
        ("cosine", "<f4"),
        ("rank", "<i4"),
        ("direction", "u1"),
    ]
)
_NO_ROW = np.iinfo(np.int64).max


def sort_candidates(candidates: NDArray[np.void]) -> NDArray[np.void]:
    """The candidates by (score descending, source, target, direction): the order in which everything is decided."""
    order = np.lexsort((candidates["direction"], candidates["target"], candidates["source"], -candidates["score"]))
    return candidates[order]


def candidate_scores(
    neighbours: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
) -> NDArray[np.float64]:
    """Margin score of every neighbour, (n, k) float64, -inf where there is none; arguments as for `best_candidates`."""
    found = neighbours >= 0
    scores = margin_scores(np.where(found, cosines, 0.0), own_means[:, None], other_means, margin)
    return np.where(found, scores, -np.inf)


def best_candidates(
    rows: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
    direction: int,
) -> NDArray[np.void]:
    """The best of the k neighbours of each row by margin score, as a sorted run.

    `rows` (n,) are the row numbers of the querying side, `neighbours` (n, k) int64 those found on the other side (-1:
    none), `cosines` (n, k) float32; `own_means` (n,) and `other_means` (n, k) float64 are the neighbour means of the
    row and of each of its neighbours. Ties of the score go to the lower row number. Rows without neighbours give no
    candidate.
    """
    found = neighbours >= 0
    scores = candidate_scores(neighbours, cosines, own_means, other_means, margin)
    tied = found & (scores == scores.max(axis=1, keepdims=True, initial=-np.inf))
    best = np.where(tied, neighbours, _NO_ROW).argmin(axis=1) if neighbours.shape[1] else np.zeros(len(rows), np.int64)
    keep = np.flatnonzero(found.any(axis=1))
    best = best[keep]
    run = np.empty(len(keep), dtype=CANDIDATE)
    mine, theirs = ("source", "target") if direction == FORWARD else ("target", "source")
    run[mine] = rows[keep]
    run[theirs] = neighbours[keep, best]
    run["score"] = scores[keep, best]
    run["cosine"] = cosines[keep, best]
    run["rank"] = best + 1
    run["direction"] = direction
    return sort_candidates(run)


def _join_directions(band: NDArray[np.void]) -> NDArray[np.void]:
    """One row per pair: a pair that is the best of both its ends has direction BOTH and keeps the forward rank."""
    if len(band) == 0:
        return band
    same = (band["source"][1:] == band["source"][:-1]) & (band["target"][1:] == band["target"][:-1])
    joined = band[np.concatenate(([True], ~same))].copy()
    is_first_of_two = np.concatenate((same, [False]))[np.concatenate(([True], ~same))]
    joined["direction"][is_first_of_two] = BOTH
    return joined


def greedy_reference(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    taken_source: NDArray[np.bool_],
    taken_target: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Greedy one-to-one choice, one candidate after the other in the given order; updates the taken flags."""
    chosen = np.zeros(len(source), dtype=bool)
    for i, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if not taken_source[s] and not taken_target[t]:
            chosen[i] = taken_source[s] = taken_target[t] = True
    return chosen


def greedy(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    taken_source: NDArray[np.bool_],
    taken_target: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """The same choice as `greedy_reference`, in rounds of array operations.

    A candidate that comes first among those of its source and first among those of its target is certain to be chosen;
    choose all of these at once, drop what touches them, repeat.
    """
    chosen = np.zeros(len(source), dtype=bool)
    left = np.flatnonzero(~taken_source[source] & ~taken_target[target])
    while len(left):
        first = _is_first(source[left]) & _is_first(target[left])
        now = left[first]
        chosen[now] = True
        taken_source[source[now]] = True
        taken_target[target[now]] = True
        left = left[~first]
        left = left[~taken_source[source[left]] & ~taken_target[target[left]]]
    return chosen


def _is_first(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which entries are the first of their value."""
    first = np.zeros(len(values), dtype=bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def score_bands(runs: Sequence[NDArray[np.void]], band: int) -> list[float]:
    """Falling score limits that cut the sorted runs into bands of about `band` candidates; the last is -inf.

    All candidates of one score fall into one band, so the cuts never change a result.
    """
    step = max(1, band // (4 * max(1, len(runs))))
    samples = np.sort(np.concatenate([-run["score"][::step] for run in runs])) if runs else np.empty(0)
    per_band = max(1, band // step)
    return [*(-np.unique(samples[per_band::per_band])).tolist(), -np.inf]


def iterate_bands(runs: Sequence[NDArray[np.void]], band: int) -> Iterator[NDArray[np.void]]:
    """The candidates of all runs, in the order of `sort_candidates`, band by band; a pair is never split between
    bands."""
    starts = [0] * len(runs)
    for limit in score_bands(runs, band):
        # Bisection, so that a run that is mapped from a file is not read whole.
        ends = [bisect.bisect_right(run, -limit, key=lambda row: -row["score"]) for run in runs]
        parts = [run[a:b] for run, a, b in zip(runs, starts, ends, strict=True)]
        starts = ends
        if any(len(part) for part in parts):
            yield _join_directions(sort_candidates(np.concatenate(parts)))


def match(
    runs: Sequence[NDArray[np.void]], strategy: str, source_rows: int, target_rows: int, band: int = 4_000_000
) -> Iterator[NDArray[np.void]]:
    """The aligned pairs by falling score, in blocks of `CANDIDATE` rows.

    ``forward`` keeps the best target of each source, ``backward`` the best source of each target, ``intersection`` what
    is both, ``max`` takes the union greedily by score, one to one. `source_rows` and `target_rows` are the numbers of
    rows on the sides. Raises ValueError for another strategy.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")
    taken_source = np.zeros(source_rows, dtype=bool)
    taken_target = np.zeros(target_rows, dtype=bool)
    for block in iterate_bands(runs, band):
        if strategy == "max":
            keep = greedy(block["source"], block["target"], taken_source, taken_target)
        elif strategy == "intersection":
            keep = block["direction"] == BOTH
        else:
            keep = (block["direction"] & (FORWARD if strategy == "forward" else BACKWARD)) > 0
        yield block[keep]
