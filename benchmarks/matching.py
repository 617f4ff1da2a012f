"""Margin scores and greedy matching, compiled, against the plain renderings with numpy and Python,
in one process.

    python benchmarks/matching.py --rows 2500000 --k 4 --candidates 10000000

scores the neighbour lists of `rows` rows of each side, then matches that many candidates (the best
of each source and of each target, in runs of 250,000 rows as the pipeline writes them), and prints
medians, rates and ratios. Both renderings give the same bytes. The plain greedy choice is timed
once: it takes many times as long.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata

import numpy as np

from mining.devices import resolve_threads
from mining.margins.ratio import DENOMINATOR_FLOOR
from mining.matching import greedy_reference, match, sort_candidates
from mining.neighbour_scores import UNDEFINED_SCORE, best_neighbours, list_scores
from mining.schemas import BACKWARD, BOTH, CANDIDATE, DECIMALS, FORWARD

RUN_ROWS = 250_000


def neighbour_lists(rows: int, k: int, chance: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Made-up lists of `rows` rows: ids (n, k), cosines (n, k) float32, own means (n,) and other
    means (n, k)."""
    cosines = np.sort(chance.uniform(0.3, 0.95, (rows, k)).astype(np.float32))[:, ::-1].copy()
    return (
        chance.integers(0, rows, (rows, k)),
        cosines,
        cosines.mean(axis=1, dtype=np.float64),
        chance.uniform(0.3, 0.95, (rows, k)),
    )


def plain_scores(ids: np.ndarray, cosines: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Scores of all neighbours by array operations."""
    baseline = (own[:, None] + other) / 2
    usable = baseline > DENOMINATOR_FLOOR
    scores = np.where(usable, cosines.astype(np.float64) / np.where(usable, baseline, 1.0), UNDEFINED_SCORE)
    return np.where(ids >= 0, np.round(scores, DECIMALS) + 0.0, -np.inf)


def candidate_runs(count: int, chance: np.random.Generator) -> list[np.ndarray]:
    """Sorted runs of `count` candidates, half of each direction; about half the pairs are the best
    of both ends."""
    rows = count // 2
    partner = chance.permutation(rows)
    back = np.argsort(partner)
    noise = chance.random(rows) < 0.5
    runs = []
    for direction, best in ((FORWARD, partner), (BACKWARD, back)):
        numbers = np.arange(rows)
        other = np.where(noise if direction == FORWARD else noise[back], best, chance.integers(0, rows, rows))
        table = np.zeros(rows, dtype=CANDIDATE)
        table["source"], table["target"] = (numbers, other) if direction == FORWARD else (other, numbers)
        pair = (table["source"] * 0x9E3779B1 + table["target"] * 0x85EBCA6B) % 700_000
        table["score"], table["rank"], table["direction"] = 0.6 + pair / 1_000_000, 1, direction
        runs += [sort_candidates(table[start : start + RUN_ROWS]) for start in range(0, rows, RUN_ROWS)]
    return runs


def plain_match(runs: list[np.ndarray], rows: int) -> np.ndarray:
    """Sort all candidates, join equal pairs, choose one after the other."""
    table = sort_candidates(np.concatenate(runs))
    same = (table["source"][1:] == table["source"][:-1]) & (table["target"][1:] == table["target"][:-1])
    first = np.concatenate(([True], ~same))
    table["direction"][np.flatnonzero(np.concatenate((same, [False])) & first)] = BOTH
    table = table[first]
    return table[greedy_reference(table["source"], table["target"], np.zeros(rows, bool), np.zeros(rows, bool))]


def timed(work: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Median wall time of a call and its last result."""
    seconds = []
    result: object = None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


def report_scores(rows: int, k: int, repeats: int, chance: np.random.Generator) -> None:
    """Candidate scores a second."""
    lists = neighbour_lists(rows, k, chance)
    list_scores(*(part[:10] for part in lists), "ratio"), best_neighbours(*(part[:10] for part in lists), "ratio")
    plain, expected = timed(lambda: plain_scores(*lists), repeats)
    for threads in sorted({1, resolve_threads(0)}):
        every, scores = timed(lambda: list_scores(*lists, "ratio", threads).values, repeats)  # noqa: B023 - called at once
        best, _ = timed(lambda: best_neighbours(*lists, "ratio", threads), repeats)  # noqa: B023
        assert isinstance(scores, np.ndarray)
        assert isinstance(expected, np.ndarray)
        same = scores.tobytes() == expected.tobytes()
        million = rows * k / 1e6
        print(
            f"{threads} thread(s): all scores {million / every:.0f} million a second, the best of each list "
            f"{million / best:.0f}; numpy {million / plain:.0f}; ratios {plain / every:.1f} and {plain / best:.1f}; "
            f"same bytes: {same}"
        )


def report_matching(count: int, repeats: int, chance: np.random.Generator) -> None:
    """Seconds of matching."""
    runs, rows = candidate_runs(count, chance), count // 2
    list(match([run[:10] for run in runs[:2]], "max", rows, rows))
    ours, pairs = timed(lambda: np.concatenate(list(match(runs, "max", rows, rows))), repeats)
    theirs, expected = timed(lambda: plain_match(runs, rows), 1)
    assert isinstance(pairs, np.ndarray)
    assert isinstance(expected, np.ndarray)
    same = pairs.tobytes() == expected.tobytes()
    print(
        f"{count:,} candidates in {len(runs)} runs to {len(pairs):,} pairs: {ours:.2f} s; numpy's sort and "
        f"a Python loop {theirs:.2f} s; ratio {theirs / ours:.1f}; same bytes: {same}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 2_500_000), ("k", 4), ("candidates", 10_000_000), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "numba"))
    print(f"{platform.machine()}, {os.cpu_count()} cores; {versions}; medians of {a.repeats}")
    chance = np.random.default_rng(0)
    report_scores(a.rows, a.k, a.repeats, chance)
    report_matching(a.candidates, a.repeats, chance)


if __name__ == "__main__":
    main()
