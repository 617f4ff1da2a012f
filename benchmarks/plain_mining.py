"""Mining as one writes it with sentencepiece, torch and FAISS: lists of strings, two indexes, a
loop over candidates.

The same model, neighbours, margin and matching as `bitext mine`, with an inverted file in each
direction. It neither removes duplicates nor restarts, and holds everything in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import sentencepiece
import torch

from mining.encoder.model_folder import bundled_model, read_model

TRAINING_ROWS = 100_000


class PlainMiner:
    """One run; `seconds` by step."""

    def __init__(self, factory: str, probes: int, k: int = 4) -> None:
        _, model = read_model(bundled_model())
        files = model.tokenizers[0].files()
        self.pieces = sentencepiece.SentencePieceProcessor(model_proto=files["sentencepiece.model"])
        self.table = model.tables["pieces"].take(slice(None))
        self.factory, self.probes, self.k = factory, probes, k
        self.seconds: dict[str, float] = {}

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def encode(self, texts: list[str], threads: int = 0) -> np.ndarray:
        """Unit vectors (n, d) float32."""
        lists = self.pieces.encode(texts, out_type=int, num_threads=threads or torch.get_num_threads())
        lengths = torch.tensor([len(ids) for ids in lists])
        flat = torch.tensor([piece for ids in lists for piece in ids])
        sums = torch.nn.functional.embedding_bag(flat, self.table, lengths.cumsum(0) - lengths, mode="sum")
        return torch.nn.functional.normalize(sums).numpy()

    def search(self, queries: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and positions (n, k) of the nearest."""
        index = faiss.index_factory(base.shape[1], self.factory, faiss.METRIC_INNER_PRODUCT)
        index.train(base[:: max(1, len(base) // TRAINING_ROWS)])
        index.add(base)
        index.nprobe = self.probes
        return index.search(queries, self.k)

    def mine(self, source: Path, target: Path, output: Path) -> int:
        """Write score, source id and target id of each pair; returns their number."""
        with self._step("read"):
            sides = read_side(source), read_side(target)
        with self._step("encode"):
            vectors = [self.encode([text for _, text in side]) for side in sides]
        with self._step("search"):
            cosines, ids = self.search(vectors[0], vectors[1])
            their_cosines, their_ids = self.search(vectors[1], vectors[0])
        with self._step("score, match, write"):
            means = cosines.mean(1), their_cosines.mean(1)
            forward = best_of_each(cosines, ids, means[0], means[1])
            backward = [(score, s, t) for score, t, s in best_of_each(their_cosines, their_ids, means[1], means[0])]
            seen: tuple[set[int], set[int]] = (set(), set())
            with open(output, "w", encoding="utf-8") as out:
                for score, s, t in sorted([*forward, *backward], reverse=True):
                    if s not in seen[0] and t not in seen[1]:
                        seen[0].add(s)
                        seen[1].add(t)
                        out.write(f"{score}\t{sides[0][s][0]}\t{sides[1][t][0]}\n")
        return len(seen[0])


def read_side(path: Path) -> list[list[str]]:
    """Id and text of each line."""
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def best_of_each(
    cosines: np.ndarray, ids: np.ndarray, own: np.ndarray, other: np.ndarray
) -> list[tuple[float, int, int]]:
    """Ratio margin, row and neighbour of each row's best neighbour."""
    scores = cosines / ((own[:, None] + other[ids]) / 2)
    best = scores.argmax(1)[:, None]
    neighbours = np.take_along_axis(ids, best, 1)[:, 0].tolist()
    return list(zip(scores.max(1).tolist(), range(len(best)), neighbours, strict=True))
