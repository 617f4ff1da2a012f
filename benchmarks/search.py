"""Exact search in both directions against two one-direction searches of FAISS's flat index, in turn
in one process.

    python benchmarks/search.py --source 20000 --target 40000 --dim 300 python benchmarks/search.py
    --real SOURCE.npy TARGET.npy      (stored float16 vectors of real sentences)

prints the median seconds of each and their ratio, for the product in float32 and, where the
processor has instructions for it, in bfloat16. All find the same neighbours; ours are also
recomputed and certified. Then where the time goes: the bare product in the same tiles, what the top
k of rows and columns adds to it, and the certification.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from mining.devices import on_single_threads
from mining.search.exact import certify, nearest_neighbours
from mining.search.faiss_index import import_faiss
from mining.search.tiles import Tile, TileProposer, bfloat16_is_fast
from mining.search.topk import Neighbours
from mining.search.vectors import exact_cosines, from_stored, to_stored


def unit_rows(rows: int, dim: int, chance: np.random.Generator) -> np.ndarray:
    """Random directions, as stored vectors give them back."""
    vectors = chance.normal(size=(rows, dim)).astype(np.float32)
    return from_stored(to_stored(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))


def real_rows(path: Path, rows: int) -> np.ndarray:
    """The first rows of stored vectors that are not zero."""
    stored = np.load(path, mmap_mode="r")[: 2 * rows]
    return from_stored(stored[stored.any(axis=1)][:rows])


def flat_both_ways(source: np.ndarray, target: np.ndarray, k: int) -> list[np.ndarray]:
    """Two searches of `IndexFlatIP`."""
    found = []
    for queries, base in ((source, target), (target, source)):
        index = import_faiss().IndexFlatIP(base.shape[1])
        index.add(base)
        found.append(index.search(queries, k)[1])
    return found


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU time of one call."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def bare_product(source: np.ndarray, target: np.ndarray, propose: TileProposer) -> None:
    """The products of `TileProposer` and nothing else."""
    dtype = torch.bfloat16 if propose.halves else torch.float32
    left, right = (torch.from_numpy(side).to(dtype) for side in (source, target))
    rows, columns = propose.source_tile, propose.target_tile

    def begin() -> Callable[[int], None]:
        tile = Tile(rows, columns, dtype)

        def work(first: int) -> None:
            for start in range(0, len(left), rows):
                tile.multiply(left[start : start + rows], right[first : first + columns])

        return work

    on_single_threads(range(0, len(right), columns), begin)


def shares(source: np.ndarray, target: np.ndarray, k: int, propose: TileProposer) -> str:
    """Where the time of one search goes."""
    product = min(seconds(lambda: bare_product(source, target, propose))[0] for _ in range(2))
    proposals: list = []
    proposing = seconds(lambda: proposals.extend(propose(source, target, k + propose.extra)))[0]
    open_rows = 0
    settling = 0.0
    for queries, base, proposal in ((source, target, proposals[0]), (target, source, proposals[1])):
        settling += seconds(lambda q=queries, b=base, p=proposal: certify(q, b, p, k))[0]  # type: ignore[misc]
        open_rows += len(certify(queries, base, proposal, k).open_rows)
    flops = 2 * len(source) * len(target) * source.shape[1]
    return (
        f"bare product {product:.2f} s ({flops / product / 1e9:.0f} GFLOP/s), top k of rows and columns "
        f"{max(0.0, proposing - product):.2f} s, certification {settling:.2f} s; "
        f"searched again: {open_rows} of {len(source) + len(target)} rows"
    )


def machine() -> str:
    """Processor, versions, libraries and threads."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch", "faiss-cpu", "numba"))
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index, call-overload]
    torch_blas = next(
        (line.strip(" -") for line in torch.__config__.show().split("\n") if "Kernel Library" in line), "unknown"
    )
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}; {versions}\n"
        f"BLAS of numpy: {blas['name']} {blas['version']}; of torch: {torch_blas}\n"
        f"threads: torch {torch.get_num_threads()}, FAISS {import_faiss().omp_get_max_threads()}; "
        f"bfloat16 instructions: {'yes' if bfloat16_is_fast() else 'no'}"
    )


def comparison(
    source: np.ndarray, target: np.ndarray, found: tuple[Neighbours, Neighbours], flat: list[np.ndarray]
) -> str:
    """How our lists compare with those of FAISS, whose products round: ties and near ties stand in
    any order there."""
    equal, nearer, entries = 0, 0, 0
    for queries, base, ours, theirs in ((source, target, found[0], flat[0]), (target, source, found[1], flat[1])):
        rows = np.repeat(np.arange(len(queries)), theirs.shape[1])
        cosines = exact_cosines(queries, base, rows, theirs.ravel()).reshape(theirs.shape)
        equal += int(np.sum(ours.ids == theirs))
        nearer += int(np.sum(-np.sort(-cosines, axis=1) > ours.cosines))
        entries += theirs.size
    return f"{equal / entries:.4%} of the neighbours are those of FAISS; FAISS found a nearer one at {nearer} ranks"


def measure(source: np.ndarray, target: np.ndarray, k: int, repeats: int) -> None:
    """All in turn, and print medians."""
    kinds = {"float32": TileProposer(halves=False)}
    if bfloat16_is_fast():
        kinds["bfloat16"] = TileProposer(halves=True)
    flat = flat_both_ways(source, target, k)
    for name, propose in kinds.items():
        print(f"{name}: {comparison(source, target, nearest_neighbours(source, target, k, propose), flat)}")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ("FAISS", *kinds)}
    for _ in range(repeats):
        times["FAISS"].append(seconds(lambda: flat_both_ways(source, target, k)))
        for name, propose in kinds.items():
            times[name].append(seconds(lambda p=propose: nearest_neighbours(source, target, k, p)))  # type: ignore[misc]
    medians = {name: [statistics.median(part) for part in zip(*both, strict=True)] for name, both in times.items()}
    wall, used = medians.pop("FAISS")
    print(f"two flat searches of FAISS: {wall:.2f} s (CPU {used:.2f} s)")
    for name, (ours, ours_used) in medians.items():
        print(
            f"both directions, {name}: {ours:.2f} s (CPU {ours_used:.2f} s), {wall / ours:.2f} times as fast; "
            + shares(source, target, k, kinds[name])
        )


def main() -> None:
    """Measure in turn and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("source", 20_000), ("target", 40_000), ("dim", 300), ("k", 4), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--real", nargs=2, type=Path, metavar=("SOURCE", "TARGET"))
    a = parser.parse_args()
    chance = np.random.default_rng(0)
    if a.real:
        source, target = (real_rows(path, rows) for path, rows in zip(a.real, (a.source, a.target), strict=True))
    else:
        source, target = unit_rows(a.source, a.dim, chance), unit_rows(a.target, a.dim, chance)
    print(machine())
    print(f"{len(source)} x {len(target)} x {source.shape[1]}, k = {a.k}, medians of {a.repeats}")
    measure(source, target, a.k, a.repeats)


if __name__ == "__main__":
    main()
