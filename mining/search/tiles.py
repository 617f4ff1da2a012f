"""Proposing neighbours on the CPU: one pass over tiles of similarities, top k of the rows and of
the columns of each.

Each thread multiplies tiles of its own, small enough to stay in its cache, and takes the best of
their rows and columns from there (`topk.update`). A thread owns the columns it works on; the lists
of a block of rows have a lock, which is held for the small part of the work that changes them.

The similarities of a pass are wrong in their last bits, by no more than its `Rounding` says. A
product of rounded vectors differs from the cosine by no more than

    |q(x)·q(y) - x·y|  <=  |q(x) - x| |y| + |q(x)| |q(y) - y|         (Cauchy-Schwarz)

and its summation in float32 by no more than (d + 2) 2^-24 times the sum of the absolute products,
which is at most 1 for unit vectors, in whatever order it is done (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). The lengths of what the rounding took away are measured, not
assumed: half of the worst case, and next to nothing for float16 vectors that were stored as
float16.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mining.devices import on_single_threads, resolve_device
from mining.errors import UsageError
from mining.search.methods import silent
from mining.search.topk import FLOATS, empty_keys, float_similarities, keys_of, merge_keys, positions, update

#: Roundings of float32 outside the product: unit rows are so to 2^-23, cosines are rounded to
#: float32.
_SLACK = 2.0**-21
_BLOCK = 16_384
#: Rows and columns of a tile: 2 MB of similarities and the vectors they come from.
SOURCE_TILE, TARGET_TILE = 512, 1024
#: Tiles are not made smaller than this to keep all threads busy.
LEAST_TILE = 64


class Rounding(NamedTuple):
    """Bound on the error of a similarity s: `absolute` + `relative` · |s|."""

    absolute: float
    relative: float = 0.0


class Proposal(NamedTuple):
    """Approximate nearest first: `positions` (n, c) int64 and `similarities` (n, c) float32, -1 and
    -inf where none.

    No entry that was left out exceeds the last one of its row, and no similarity errs by more than
    `rounding`.
    """

    positions: NDArray[np.int64]
    similarities: NDArray[np.float32]
    rounding: Rounding


def proposal_of(keys: NDArray[np.int64], rounding: Rounding) -> Proposal:
    """A proposal from lists of keys (n, c) with float32 similarities."""
    return Proposal(positions(keys), float_similarities(keys), rounding)


class Proposer(Protocol):
    """Proposes the nearest rows in both directions for two matrices of float32 unit rows (n, d) and
    (m, d).

    It is asked for `count` and may propose `extra` more, so that near ties at the end are settled
    without a second search. `device` is where a second search multiplies.
    """

    extra: int
    device: torch.device

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]: ...

    def in_float32(self) -> Proposer:
        """The same without rounding the vectors."""
        ...


def float32_rounding(dim: int) -> Rounding:
    """The bound for products of the float32 rows themselves."""
    return Rounding((dim + 2) * 2.0**-24 + _SLACK)


def _largest_loss(rows: torch.Tensor, dtype: torch.dtype) -> float:
    """The length of the longest of the differences between rows and rounded rows."""
    largest = 0.0
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        lost = block - block.to(dtype).to(block.dtype)
        largest = max(largest, float(torch.linalg.vector_norm(lost, dim=1).max()))
    return largest * (1 + 2.0**-10)


def half_rounding(source: torch.Tensor, target: torch.Tensor, dtype: torch.dtype, rounded: bool) -> Rounding:
    """The bound for products of float32 unit rows that are rounded to `dtype` and summed in
    float32.

    `rounded` says whether the sum is rounded to `dtype` as well.
    """
    left, right = _largest_loss(source, dtype), _largest_loss(target, dtype)
    exact = float32_rounding(source.shape[1])
    unit = torch.finfo(dtype).eps / 2
    return Rounding(
        left * (1 + 2.0**-20) + (1 + left) * right + (1 + left) * (1 + right) * exact.absolute,
        unit * (1 + 2.0**-10) if rounded else 0.0,
    )


def bfloat16_is_fast() -> bool:
    """Whether this processor multiplies bfloat16 by instructions of its own (AVX512-BF16, AMX)."""
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check is not None and check() for check in checks)


class TileProposer:
    """Both directions from one product a tile, on the CPU; `report` is told the share of the work
    that is done.

    `halves` multiplies vectors rounded to bfloat16, by default where the processor has instructions
    for it (half the time); a few more are then proposed, since more must be recomputed to be
    certain. As many threads work as torch is told to use. Memory beyond the vectors, n and m rows:
    for each thread a tile of `source_tile` × `target_tile` float32 and, with `halves`, bfloat16; 12
    (n + m) (k + extra) bytes of lists; and with `halves` a copy of all vectors in bfloat16.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        source_tile: int = 0,
        target_tile: int = 0,
        report: Callable[[float], None] | None = None,
        halves: bool | None = None,
    ) -> None:
        self.source_tile, self.target_tile = source_tile or SOURCE_TILE, target_tile or TARGET_TILE
        self.report = report or silent
        self.halves = bfloat16_is_fast() if halves is None else halves
        self.extra = 6 if self.halves else 4

    def in_float32(self) -> TileProposer:
        """The same without rounding the vectors."""
        return TileProposer(self.source_tile, self.target_tile, self.report, halves=False)

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        # The longer side is dealt to the threads.
        if len(source) > len(target):
            theirs, ours = self(target, source, count)
            return ours, theirs
        left, right = torch.from_numpy(source), torch.from_numpy(target)
        rounding = float32_rounding(source.shape[1])
        if self.halves:
            rounding = half_rounding(left, right, torch.bfloat16, rounded=True)
            left, right = left.bfloat16(), right.bfloat16()
        forward, backward = self._lists(left, right, count)
        return proposal_of(forward, rounding), proposal_of(backward, rounding)

    def _lists(
        self, left: torch.Tensor, right: torch.Tensor, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best of both sides, from blocks of columns that are dealt to the threads."""
        n, m, threads = len(left), len(right), torch.get_num_threads()
        rows = min(self.source_tile, max(LEAST_TILE, -(-n // (2 * threads))))
        columns = min(self.target_tile, max(LEAST_TILE, -(-m // (4 * threads))))
        forward, backward = empty_keys(n, min(count, m)), empty_keys(m, min(count, n))
        numbers = np.arange(max(n, m))
        locks = [threading.Lock() for _ in range(0, n, rows)]
        began, done, counting = itertools.count(), itertools.count(1), threading.Lock()

        def begin() -> Callable[[int], None]:
            tile = Tile(min(rows, n), min(columns, m), left.dtype)
            # Each thread begins elsewhere, so that two rarely want the same rows.
            offset = next(began) * len(locks) // threads

            def work(first: int) -> None:
                there = slice(first, first + columns)
                for turn in range(len(locks)):
                    block = (offset + turn) % len(locks)
                    start = block * rows
                    here = slice(start, start + rows)
                    similarities = tile.multiply(left[here], right[there]).view(np.int32)
                    with locks[block]:
                        update(similarities, FLOATS, 1, numbers[here], numbers[there], forward[here], backward[there])
                with counting:
                    self.report(min(1.0, next(done) * columns / m))

            return work

        on_single_threads(range(0, m, columns), begin)
        return forward, backward


class Tile:
    """Memory of one thread for a tile of similarities, used again for each."""

    def __init__(self, rows: int, columns: int, dtype: torch.dtype) -> None:
        self.memory = torch.empty(rows * columns)
        self.rounded = torch.empty(rows * columns, dtype=dtype) if dtype != torch.float32 else self.memory

    def multiply(self, left: torch.Tensor, right: torch.Tensor) -> NDArray[np.float32]:
        """The similarities (r, c) float32 of rows (r, d) and rows (c, d); overwritten by the
        next."""
        shape = len(left), len(right)
        size = shape[0] * shape[1]
        torch.mm(left, right.T, out=self.rounded[:size].view(shape))
        if self.rounded is not self.memory:
            self.memory[:size].copy_(self.rounded[:size])
        return self.memory[:size].view(shape).numpy()


class _Resources(threading.local):
    """FAISS's memory and streams on each GPU, made once: of each thread, since two must not use the
    same."""

    def __init__(self) -> None:
        self.by_device: dict[int, Any] = {}

    def of(self, faiss: Any, device: int) -> Any:
        if device not in self.by_device:
            self.by_device[device] = faiss.StandardGpuResources()
        return self.by_device[device]


_resources = _Resources()


class FaissProposer:
    """Both directions by FAISS's brute-force search, tile by tile, on CPU or on one GPU."""

    extra = 4

    def __init__(
        self,
        device: str = "cpu",
        source_tile: int = 16_384,
        target_tile: int = 65_536,
        report: Callable[[float], None] | None = None,
    ) -> None:
        from mining.search.faiss_index import import_faiss

        self.faiss = import_faiss()
        self.device = resolve_device(device)
        if self.device.type == "cuda" and not hasattr(self.faiss, "StandardGpuResources"):
            raise UsageError(
                f"search.backend: faiss on {device}: the installed faiss has no GPU support; "
                "install 'bitext-miner[gpu]' in place of [cpu], or set search.backend: torch"
            )
        self.source_tile, self.target_tile = source_tile, target_tile
        self.report = report or silent

    def in_float32(self) -> FaissProposer:
        """FAISS multiplies the vectors as they are."""
        return self

    def _knn(
        self, queries: NDArray[np.float32], base: NDArray[np.float32], lists: NDArray[np.int64], first: int
    ) -> None:
        """Add the nearest of a tile, whose base rows begin at `first`, to lists of keys."""
        count, metric = min(lists.shape[1], len(base)), self.faiss.METRIC_INNER_PRODUCT
        if self.device.type == "cpu":
            values, found = self.faiss.knn(queries, base, count, metric=metric)
        else:
            # Without a number it is the current device, which -1 stands for in FAISS.
            number = -1 if self.device.index is None else self.device.index
            resources = _resources.of(self.faiss, number)
            values, found = self.faiss.knn_gpu(resources, queries, base, count, metric=metric, device=number)
        merge_keys(lists, keys_of(values, found + first), 0, len(queries))

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        forward = empty_keys(len(source), min(count, len(target)))
        backward = empty_keys(len(target), min(count, len(source)))
        for t in range(0, len(target), self.target_tile):
            columns = slice(t, t + self.target_tile)
            right = target[columns]
            for s in range(0, len(source), self.source_tile):
                rows = slice(s, s + self.source_tile)
                left = source[rows]
                self._knn(left, right, forward[rows], t)
                self._knn(right, left, backward[columns], s)
                self.report((t + len(right) * (s + len(left)) / len(source)) / len(target))
        rounding = float32_rounding(source.shape[1])
        return proposal_of(forward, rounding), proposal_of(backward, rounding)
