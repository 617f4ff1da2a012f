"""Proposing neighbours: one pass over tiles of similarities, top k of the rows and of the columns of each.

A tile is multiplied once. Its best entries are found by halves: the maximum of each group of 32 entries, the best
groups by their maximum (they hold all the best entries), and the best entries in those. The maxima cost one streaming
read of the tile, everything after that is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

GROUP = 32


class Proposal(NamedTuple):
    """Approximate nearest first: `positions` (n, c) int64 and `similarities` (n, c) float32; -1 and -inf where none."""

    positions: NDArray[np.int64]
    similarities: NDArray[np.float32]


class Proposer(Protocol):
    """Proposes the `count` nearest rows in both directions for two matrices of float32 unit rows (n, d) and (m, d)."""

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]: ...


def _silent(done: float) -> None:
    """Tell nobody how much is done."""


class _Best:
    """Running best entries of some rows, on the device."""

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self.values = torch.full((rows, count), -torch.inf, device=device)
        self.places = torch.full((rows, count), -1, dtype=torch.int64, device=device)

    def add(self, start: int, values: torch.Tensor, places: torch.Tensor) -> None:
        """Merge entries found for the rows from `start` on."""
        stop = start + len(values)
        count = self.values.shape[1]
        values = torch.cat([self.values[start:stop], values], dim=1)
        places = torch.cat([self.places[start:stop], places], dim=1)
        self.values[start:stop], order = values.topk(count, dim=1)
        self.places[start:stop] = places.gather(1, order)

    def proposal(self) -> Proposal:
        places = torch.where(torch.isfinite(self.values), self.places, -1)
        return Proposal(places.cpu().numpy(), self.values.cpu().numpy())


def row_top(tile: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest entries of each row of a tile (r, c), c a multiple of 32: values and columns, each (r,
    count)."""
    rows, columns = tile.shape
    count = min(count, columns)
    if columns <= GROUP * count:
        return tile.topk(count, dim=1)
    grouped = tile.view(rows, columns // GROUP, GROUP)
    groups = grouped.amax(2).topk(count, dim=1).indices
    entries = grouped.gather(1, groups[:, :, None].expand(-1, -1, GROUP)).reshape(rows, -1)
    values, order = entries.topk(count, dim=1)
    return values, groups.gather(1, order // GROUP) * GROUP + order % GROUP


def column_top(tile: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest entries of each column of a tile (r, c), r a multiple of 32: values and rows, each (c,
    count)."""
    rows, columns = tile.shape
    count = min(count, rows)
    if rows <= GROUP * count:
        return tile.T.contiguous().topk(count, dim=1)
    grouped = tile.view(rows // GROUP, GROUP, columns)
    groups = grouped.amax(1).T.contiguous().topk(count, dim=1).indices
    chosen = grouped.gather(0, groups.T[:, None, :].expand(-1, GROUP, -1))
    values, order = chosen.reshape(-1, columns).T.contiguous().topk(count, dim=1)
    return values, groups.gather(1, order // GROUP) * GROUP + order % GROUP


def _padded(rows: NDArray[np.float32], device: torch.device) -> torch.Tensor:
    """A block of rows on the device, filled up with zero rows to a multiple of 32."""
    block = torch.zeros((-(-len(rows) // GROUP) * GROUP, rows.shape[1]), device=device)
    block[: len(rows)] = torch.from_numpy(rows).to(device)
    return block


class TorchProposer:
    """Both directions from one product a tile, on CPU or GPU; `report` is told the share of the work that is done.

    `source_tile` × `target_tile` float32 similarities are held at a time. A GPU that runs out of memory gets half
    the tile, down to 256 × 256, before the error is passed on.
    """

    def __init__(
        self,
        device: str = "cpu",
        source_tile: int = 2048,
        target_tile: int = 8192,
        report: Callable[[float], None] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.source_tile, self.target_tile = source_tile, target_tile
        self.report = report or _silent

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        while True:
            try:
                return self._propose(source, target, count)
            except torch.OutOfMemoryError:
                if min(self.source_tile, self.target_tile) <= 256:
                    raise
                self.source_tile, self.target_tile = self.source_tile // 2, self.target_tile // 2

    @torch.inference_mode()
    def _propose(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        forward = _Best(len(source), min(count, len(target)), self.device)
        backward = _Best(len(target), min(count, len(source)), self.device)
        sides = min(self.source_tile, len(source)) + GROUP, min(self.target_tile, len(target)) + GROUP
        memory = torch.empty(sides[0] * sides[1], device=self.device)
        for t in range(0, len(target), self.target_tile):
            right = _padded(target[t : t + self.target_tile], self.device)
            right_rows = min(self.target_tile, len(target) - t)
            for s in range(0, len(source), self.source_tile):
                left = _padded(source[s : s + self.source_tile], self.device)
                left_rows = min(self.source_tile, len(source) - s)
                tile = memory[: len(left) * len(right)].view(len(left), len(right))
                torch.mm(left, right.T, out=tile)
                tile[left_rows:] = -torch.inf
                tile[:, right_rows:] = -torch.inf
                values, columns = row_top(tile, forward.values.shape[1])
                forward.add(s, values[:left_rows], columns[:left_rows] + t)
                values, rows = column_top(tile, backward.values.shape[1])
                backward.add(t, values[:right_rows], rows[:right_rows] + s)
                self.report((t + right_rows * (s + left_rows) / len(source)) / len(target))
        return forward.proposal(), backward.proposal()


class FaissProposer:
    """Both directions by FAISS's brute-force search, tile by tile, on CPU or on one GPU."""

    def __init__(
        self,
        device: str = "cpu",
        source_tile: int = 16_384,
        target_tile: int = 65_536,
        report: Callable[[float], None] | None = None,
    ) -> None:
        from mining.search.faiss_index import import_faiss

        self.faiss = import_faiss()
        self.device = device
        self.source_tile, self.target_tile = source_tile, target_tile
        self.report = report or _silent

    def _knn(self, queries: NDArray[np.float32], base: NDArray[np.float32], count: int) -> Proposal:
        if self.device == "cpu":
            values, places = self.faiss.knn(queries, base, count, metric=self.faiss.METRIC_INNER_PRODUCT)
        else:
            resources = self.faiss.StandardGpuResources()
            values, places = self.faiss.knn_gpu(resources, queries, base, count, metric=self.faiss.METRIC_INNER_PRODUCT)
        return Proposal(places, values)

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        cpu = torch.device("cpu")
        forward = _Best(len(source), min(count, len(target)), cpu)
        backward = _Best(len(target), min(count, len(source)), cpu)
        for t in range(0, len(target), self.target_tile):
            right = target[t : t + self.target_tile]
            for s in range(0, len(source), self.source_tile):
                left = source[s : s + self.source_tile]
                found = self._knn(left, right, min(forward.values.shape[1], len(right)))
                forward.add(s, torch.from_numpy(found.similarities), torch.from_numpy(found.positions) + t)
                found = self._knn(right, left, min(backward.values.shape[1], len(left)))
                backward.add(t, torch.from_numpy(found.similarities), torch.from_numpy(found.positions) + s)
                self.report((t + len(right) * (s + len(left)) / len(source)) / len(target))
        return forward.proposal(), backward.proposal()
