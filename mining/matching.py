"""From scored candidates to aligned pairs: ``forward``, ``backward``, ``intersection`` and ``max``.

A candidate is one row of `CANDIDATE` dtype. Every source row contributes its best target and every
target row its best source (LASER's mining takes the same ones). They are kept as *runs*, each
sorted by (score descending, source, target), one a shard and direction; `match` merges the runs in
bands of falling score, so memory is bounded by the band and one flag a row.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled
from mining.config.mine import Strategy
from mining.margin import best_neighbours

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


def sort_candidates(candidates: NDArray[np.void]) -> NDArray[np.void]:
    """The candidates by (score descending, source, target, direction): the order in which
    everything is decided."""
    order = np.lexsort((candidates["direction"], candidates["target"], candidates["source"], -candidates["score"]))
    return candidates[order]


def best_candidates(
    rows: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    cosines: NDArray[np.float32],
    own_means: NDArray[np.float64],
    other_means: NDArray[np.float64],
    margin: str,
    direction: int,
    threads: int = 0,
) -> NDArray[np.void]:
    """The best of the k neighbours of each row by margin score, as a sorted run.

    `rows` (n,) are the distinct, rising row numbers of the querying side, `neighbours` (n, k) int64
    those found on the other side (-1: none), `cosines` (n, k) float32; `own_means` (n,) and
    `other_means` (n, k) float64 are the neighbour means of the row and of each of its neighbours.
    Ties of the score go to the lower row number. Rows without neighbours give no candidate.
    """
    best, scores = best_neighbours(neighbours, cosines, own_means, other_means, margin, threads)
    keep = np.flatnonzero(best >= 0)
    theirs = neighbours[keep, best[keep]]
    # Each row has one candidate and the rows rise: a stable sort leaves them in order.
    falling = -scores[keep]
    order = np.argsort(falling, kind="stable") if direction == FORWARD else np.lexsort((theirs, falling))
    keep, theirs = keep[order], theirs[order]
    run = np.empty(len(keep), dtype=CANDIDATE)
    run["source"], run["target"] = (rows[keep], theirs) if direction == FORWARD else (theirs, rows[keep])
    run["score"], run["cosine"] = scores[keep], cosines[keep, best[keep]]
    run["rank"], run["direction"] = best[keep] + 1, direction
    return run


@compiled
def _precedes(one, other):  # type: ignore[no-untyped-def]
    """Whether a candidate comes before another, or at its place."""
    if one.score != other.score:
        return one.score > other.score
    if one.source != other.source:
        return one.source < other.source
    if one.target != other.target:
        return one.target < other.target
    return one.direction <= other.direction


@compiled
def _merge_two(left, right, merged):  # type: ignore[no-untyped-def]
    i = j = 0
    for place in range(len(merged)):
        if j == len(right) or (i < len(left) and _precedes(left[i], right[j])):
            merged[place] = left[i]
            i += 1
        else:
            merged[place] = right[j]
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
def _join_directions(band):  # type: ignore[no-untyped-def]
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
def _greedy(candidates, taken_source, taken_target, chosen):  # type: ignore[no-untyped-def]
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


def match(
    runs: Sequence[NDArray[np.void]], strategy: str, source_rows: int, target_rows: int, band: int = 4_000_000
) -> Iterator[NDArray[np.void]]:
    """The aligned pairs by falling score, in blocks of `CANDIDATE` rows.

    ``forward`` keeps the best target of each source, ``backward`` the best source of each target,
    ``intersection`` what is both, ``max`` takes the union greedily by score, one to one.
    `source_rows` and `target_rows` are the numbers of rows on the sides. Raises ValueError for
    another strategy.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")
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
