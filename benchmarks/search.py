"""Exact search in both directions against two one-direction searches of FAISS's flat index, in turn in one process.

    python benchmarks/search.py --source 20000 --target 40000 --dim 300

prints the median seconds of each and their ratio. Both find the same neighbours; ours also recomputes and certifies
them.
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

from mining.search import from_stored, nearest_neighbours, to_stored
from mining.search.faiss_index import import_faiss


def unit_rows(rows: int, dim: int, chance: np.random.Generator) -> np.ndarray:
    """Random directions, as stored vectors give them back."""
    vectors = chance.normal(size=(rows, dim)).astype(np.float32)
    return from_stored(to_stored(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))


def flat_both_ways(source: np.ndarray, target: np.ndarray, k: int) -> list[np.ndarray]:
    """Two searches of `IndexFlatIP`."""
    found = []
    for queries, base in ((source, target), (target, source)):
        index = import_faiss().IndexFlatIP(base.shape[1])
        index.add(base)
        found.append(index.search(queries, k)[1])
    return found


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Measure in turn and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("source", 20_000), ("target", 40_000), ("dim", 300), ("k", 4), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    chance = np.random.default_rng(0)
    source, target = unit_rows(a.source, a.dim, chance), unit_rows(a.target, a.dim, chance)
    forward, backward = nearest_neighbours(source, target, a.k)
    flat = flat_both_ways(source, target, a.k)
    agree = np.mean([np.mean(forward.ids == flat[0]), np.mean(backward.ids == flat[1])])
    ours, theirs = [], []
    for _ in range(a.repeats):
        ours.append(seconds(lambda: nearest_neighbours(source, target, a.k)))
        theirs.append(seconds(lambda: flat_both_ways(source, target, a.k)))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch", "faiss-cpu"))
    print(f"{platform.machine()}, {os.cpu_count()} cores; {versions}")
    print(f"{a.source} x {a.target} x {a.dim}, k = {a.k}, medians of {a.repeats}; equal neighbours: {agree:.4%}")
    mine, flat_seconds = statistics.median(ours), statistics.median(theirs)
    print(f"both directions {mine:.2f} s; two flat searches {flat_seconds:.2f} s; ratio {flat_seconds / mine:.2f}")


if __name__ == "__main__":
    main()
