"""From scored candidates to aligned pairs: ``forward``, ``backward``, ``intersection`` and ``max``.

A candidate is one row of `CANDIDATE` dtype. Every source row contributes its best target and every
target row its best source (LASER's mining takes the same ones). They are kept as *runs*, each
sorted by (score descending, source, target), one a shard and direction; `match` merges the runs in
bands of falling score, so memory is bounded by the band and one flag a row.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled
from mining.config.mine import Strategy
from mining.neighbour_scores import best_neighbours
from mining.schemas import BACKWARD, BOTH, CANDIDATE, FORWARD
from mining.search.topk import Neighbours

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class Candidate(Protocol):
    """One record of `CANDIDATE` as kernels see it."""

    source: int
    target: int
    score: float
    direction: int


def sort_candidates(candidates: NDArray[np.void]) -> NDArray[np.void]:
    """The candidates by (score descending, source, target, direction): the order in which
    everything is decided."""
    order = np.lexsort((candidates["direction"], candidates["target"], candidates["source"], -candidates["score"]))
    return candidates[order]


def best_candidates(
    rows: NDArray[np.int64],
    lists: Neighbours,
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
    direction: int,
    threads: int = 0,
) -> tuple[NDArray[np.void], int]:
    """The best of the k neighbours of each row by margin score, as a sorted run; and how many of
    the neighbours have no defined margin.

    `rows` (n,) are the distinct, rising row numbers of the querying side, `lists` (n, k) what was
    found on the other side; `own_means` (n,) and `other_means` (n, k) float64 are the neighbour
    means of the row and of each of its neighbours. Ties of the score go to the lower row number.
    Rows without neighbours give no candidate.
    """
    best, scores, undefined = best_neighbours(*lists, own_means, other_means, margin, threads)
    keep = np.flatnonzero(best >= 0)
    theirs = lists.ids[keep, best[keep]]
    # Each row has one candidate and the rows rise: a stable sort leaves them in order.
    falling = -scores[keep]
    order = np.argsort(falling, kind="stable") if direction == FORWARD else np.lexsort((theirs, falling))
    keep, theirs = keep[order], theirs[order]
    run = np.empty(len(keep), dtype=CANDIDATE)
    run["source"], run["target"] = (rows[keep], theirs) if direction == FORWARD else (theirs, rows[keep])
    run["score"], run["cosine"] = scores[keep], lists.cosines[keep, best[keep]]
    run["rank"], run["direction"] = best[keep] + 1, direction
    return run, undefined


@compiled
def _precedes(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate comes before another, or is equal to it."""
    if one.score != other.score:
        return one.score > other.score
    if one.source != other.source:
        return one.source < other.source
    if one.target != other.target:
        return one.target < other.target
    return one.direction <= other.direction


@compiled
def _merge_two(left: NDArray[np.void], right: NDArray[np.void], merged: NDArray[np.void]) -> None:
    i = j = 0
    for out in range(len(merged)):
        if j == len(right) or (i < len(left) and _precedes(left[i], right[j])):
            merged[out] = left[i]
            i += 1
        else:
            merged[out] = right[j]
            j += 1


def merge_runs(runs: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """One sorted run of all candidates of several; what `sort_candidates` gives for all of them, in
    linear time."""
    level = [np.array(run) for run in runs if len(run)] or [np.empty(0, dtype=CANDIDATE)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [*(_merged(left, right) for left, right in pairs), *odd]
    return level[0]


def _merged(left: NDArray[np.void], right: NDArray[np.void]) -> NDArray[np.void]:
    merged = np.empty(len(left) + len(right), dtype=CANDIDATE)
    _merge_two(left, right, merged)
    return merged


@compiled
def _join_directions(band: NDArray[np.void]) -> int:
    """One row per pair, in place: a pair that is the best of both its ends has direction BOTH and
    keeps the forward rank. Returns how many rows there are."""
    count = 0
    for i in range(len(band)):
        last = band[count - 1] if count else band[i]
        if count and band[i].source == last.source and band[i].target == last.target:
            band[count - 1].direction = BOTH
        else:
            band[count] = band[i]
            count += 1
    return count


def greedy_reference(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    taken_source: NDArray[np.bool_],
    taken_target: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Greedy one-to-one choice, one candidate after the other in the given order; updates the taken
    flags."""
    chosen = np.zeros(len(source), dtype=bool)
    for i, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if not taken_source[s] and not taken_target[t]:
            chosen[i] = taken_source[s] = taken_target[t] = True
    return chosen


@compiled
def _greedy(
    candidates: NDArray[np.void],
    taken_source: NDArray[np.bool_],
    taken_target: NDArray[np.bool_],
    chosen: NDArray[np.bool_],
) -> None:
    for i in range(len(candidates)):
        source, target = candidates[i].source, candidates[i].target
        chosen[i] = not taken_source[source] and not taken_target[target]
        if chosen[i]:
            taken_source[source] = taken_target[target] = True


def greedy(
    candidates: NDArray[np.void], taken_source: NDArray[np.bool_], taken_target: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The choice of `greedy_reference` among sorted candidates, compiled; (n,) bool, updates the
    taken flags."""
    chosen = np.empty(len(candidates), dtype=bool)
    _greedy(candidates, taken_source, taken_target, chosen)
    return chosen


def score_bands(runs: Sequence[NDArray[np.void]], band: int) -> list[float]:
    """Falling score limits that cut the sorted runs into bands of about `band` candidates; the last
    is -inf.

    All candidates of one score fall into one band, so the cuts never change a result.
    """
    step = max(1, band // (4 * max(1, len(runs))))
    samples = np.sort(np.concatenate([-run["score"][::step] for run in runs])) if runs else np.empty(0)
    per_band = max(1, band // step)
    return [*(-np.unique(samples[per_band::per_band])).tolist(), -np.inf]


def iterate_bands(runs: Sequence[NDArray[np.void]], band: int) -> Iterator[NDArray[np.void]]:
    """The candidates of all runs, in the order of `sort_candidates`, band by band; a pair is never
    split between bands."""
    starts = [0] * len(runs)
    for limit in score_bands(runs, band):
        # Bisection, so that a run that is mapped from a file is not read whole.
        ends = [bisect.bisect_right(run, -limit, key=lambda row: -row["score"]) for run in runs]
        parts = [run[a:b] for run, a, b in zip(runs, starts, ends, strict=True)]
        starts = ends
        if any(len(part) for part in parts):
            merged = merge_runs(parts)
            yield merged[: _join_directions(merged)]


def check_strategy(strategy: str) -> Strategy:
    """`strategy` itself; raises ValueError, with the names there are, for another."""
    for known in STRATEGIES:
        if strategy == known:
            return known
    raise ValueError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")


def match(
    runs: Sequence[NDArray[np.void]], strategy: str, source_rows: int, target_rows: int, band: int = 4_000_000
) -> Iterator[NDArray[np.void]]:
    """The aligned pairs by falling score, in blocks of `CANDIDATE` rows.

    ``forward`` keeps the best target of each source, ``backward`` the best source of each target,
    ``intersection`` what is both, ``max`` takes the union greedily by score, one to one.
    `source_rows` and `target_rows` are the numbers of rows on the sides. Raises ValueError for
    another strategy.
    """
    check_strategy(strategy)
    taken_source = np.zeros(source_rows, dtype=bool)
    taken_target = np.zeros(target_rows, dtype=bool)
    for block in iterate_bands(runs, band):
        if strategy == "max":
            keep = greedy(block, taken_source, taken_target)
        elif strategy == "intersection":
            keep = block["direction"] == BOTH
        else:
            keep = (block["direction"] & (FORWARD if strategy == "forward" else BACKWARD)) > 0
        yield block[keep]
