"""The cluster join against exact search at the same size: seconds, recall of neighbours, F1.

    python benchmarks/approximate.py --work runs/approximate --rows 1000000

mines the corpora with ``--method clusters``. An exact search of a million against a million takes
an hour, so its time is that of a part of it (all three kinds: ours in bfloat16 and in float32, two
searches of FAISS's flat index), measured in this process and multiplied by the number of pairs. Its
quality is that of sampled source rows, for which everything is exact: their neighbours among all
target rows, and the neighbours of those among all source rows. Both searches then choose each
sampled row's best target by the ratio margin, and F1 at the best threshold is compared on the same
rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pyarrow.parquet as pq
from corpora import gold_pairs, write_corpora
from jobs import Job, machine, mine
from scale import SEARCH

from mining.evaluation.threshold import best_threshold
from mining.neighbour_scores import best_neighbours, neighbour_means
from mining.search.exact import knn, nearest_neighbours
from mining.search.tiles import TileProposer, bfloat16_is_fast
from mining.search.topk import Neighbours
from mining.search.vectors import from_stored

K = 4


class Side:
    """What a finished run knows of one side: ids, unit rows (n, d) and the neighbour lists of the
    join."""

    def __init__(self, job: Job, name: str) -> None:
        work = job.folder / "work"

        def arrays(stage: str, suffix: str) -> list[np.ndarray]:
            return [np.load(path) for path in sorted(work.glob(f"{stage}/{name}-?????{suffix}"))]

        if not np.concatenate(arrays("encode", ".valid.npy")).all():
            raise SystemExit(f"{name}: some sentences have no vector")
        self.vectors = np.concatenate([from_stored(part) for part in arrays("encode", ".vectors.npy")])
        lists = np.concatenate(arrays("merge", ".lists.npy"))
        self.lists = Neighbours(np.ascontiguousarray(lists["id"]), np.ascontiguousarray(lists["cosine"]))
        self.means = np.concatenate(arrays("merge", ".means.npy"))
        shards = sorted(work.glob(f"shard/{name}-?????.parquet"))
        self.ids = np.concatenate([pq.read_table(path, columns=["id"])["id"].to_numpy() for path in shards])


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def flat_both_ways(source: np.ndarray, target: np.ndarray) -> None:
    """Two searches of `IndexFlatIP`."""
    for queries, base in ((source, target), (target, source)):
        index = faiss.IndexFlatIP(base.shape[1])
        index.add(base)
        index.search(queries, K)


def exact_seconds(source: np.ndarray, target: np.ndarray, part: int) -> dict[str, float]:
    """Seconds of an exact search by each method, of `part` against two times `part` rows."""
    left, right = source[:part], target[: 2 * part]
    searches: dict[str, Callable[[], object]] = {
        "exact, float32": lambda: nearest_neighbours(left, right, K, TileProposer(halves=False)),
        "two flat searches of FAISS": lambda: flat_both_ways(left, right),
    }
    if bfloat16_is_fast():
        searches = {
            "exact, bfloat16": lambda: nearest_neighbours(left, right, K, TileProposer(halves=True)),
            **searches,
        }
    share = len(left) * len(right) / (len(source) * len(target))
    return {name: seconds(search) / share for name, search in searches.items()}


def choice(rows: Neighbours, own: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best target and its ratio margin for each row; `other` (n, k) are the means of the
    neighbours."""
    index, scores, _ = best_neighbours(*rows, own, other, "ratio")
    return np.take_along_axis(rows.ids, index[:, None], 1)[:, 0], scores


def exact_sample(source: Side, target: Side, sample: np.ndarray) -> tuple[Neighbours, np.ndarray, np.ndarray]:
    """Exact lists of sampled source rows, their means, and the means of their neighbours (n, k)."""
    lists = knn(source.vectors[sample], target.vectors, K)
    wanted, index = np.unique(lists.ids, return_inverse=True)
    theirs = neighbour_means(knn(target.vectors[wanted], source.vectors, K).cosines)
    return lists, neighbour_means(lists.cosines), theirs[index.reshape(lists.ids.shape)]


def quality(source: Side, target: Side, corpora: Path, count: int) -> None:
    """Print recall and F1 of the join and of the exact search for sampled source rows."""
    sample = np.arange(min(count, len(source.ids))) * len(source.ids) // min(count, len(source.ids))
    gold = gold_pairs(corpora)
    wanted = np.array([gold[name] for name in source.ids[sample]], dtype=object)
    exact, own, other = exact_sample(source, target, sample)
    joined = Neighbours(source.lists.ids[sample], source.lists.cosines[sample])
    recall = [
        np.mean([len(set(left[:k]) & set(right[:k])) / k for left, right in zip(exact.ids, joined.ids, strict=True)])
        for k in (1, K)
    ]
    print(f"{len(sample):,} sampled source rows: recall@1 {100 * recall[0]:.2f}, recall@{K} {100 * recall[1]:.2f}")
    for name, lists, means, their_means in (
        ("exact", exact, own, other),
        ("clusters", joined, source.means[sample], target.means[joined.ids]),
    ):
        best, scores = choice(lists, means, their_means)
        found = best_threshold(scores, target.ids[best] == wanted, len(sample))
        print(
            f"{name}: best F1 {100 * found.f1:.2f} (precision {100 * found.precision:.2f}, "
            f"recall {100 * found.recall:.2f})"
        )


def main() -> None:
    """Mine, measure parts of the exact search, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/approximate"), help="folder of corpora and runs")
    parser.add_argument("--rows", type=int, default=1_000_000, help="sentences a side")
    parser.add_argument("--part", type=int, default=20_000, help="source rows of the exact searches that are timed")
    parser.add_argument("--sample", type=int, default=5_000, help="source rows whose neighbours are compared")
    parser.add_argument("options", nargs="*", help="further options of `bitext mine`, after --")
    a = parser.parse_args()
    corpora = write_corpora(a.work / "corpora", a.rows)
    print(f"{machine()}\n{a.rows:,} x {a.rows:,} sentences", flush=True)
    job = mine(corpora, a.work / "run", ["--method", "clusters", *a.options])
    ours = sum(stage.seconds for stage in job.stages if stage.name in SEARCH)
    work = sum(stage.cpu for stage in job.stages if stage.name in SEARCH)
    print(f"clusters: {ours:.1f} s ({work:.1f} s of processor), peak memory {job.memory / 2**20:,.0f} MiB", flush=True)
    source, target = Side(job, "source"), Side(job, "target")
    for name, whole in exact_seconds(source.vectors, target.vectors, min(a.part, a.rows // 2)).items():
        print(f"{name}: {whole:,.0f} s, ratio {whole / ours:.1f}", flush=True)
    quality(source, target, corpora, a.sample)


if __name__ == "__main__":
    main()
