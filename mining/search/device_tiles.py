"""Proposing neighbours on GPUs: tiles of half-precision products, their top k on the device, shared
among devices.

A tile is multiplied once. Its best entries are found by halves: the maximum of each group of 32
entries, the best groups by their maximum (they hold all the best entries), and the best entries in
those. The maxima cost one streaming read of the tile, everything after that is small.
"""

from __future__ import annotations

import functools
import gc
import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.devices import full_accumulation, resolve_devices, share
from mining.search.methods import silent
from mining.search.tiles import Proposal, float32_rounding, half_rounding, proposal_of
from mining.search.topk import empty_keys, keys_of, merge_keys

log = logging.getLogger(__name__)

GROUP = 32
#: Tiles are not made smaller than this when memory runs out.
LEAST_TILE = 256
#: Tiles are not planned larger than this: products are at their full speed long before.
LARGEST_TILE = 16_384
#: Share of the free memory that is planned for; the rest is left to the library and to
#: fragmentation.
_SHARE = 0.6


class _Best:
    """Running best entries of some rows, on the device."""

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self.values = torch.full((rows, count), -torch.inf, device=device)
        self.positions = torch.full((rows, count), -1, dtype=torch.int64, device=device)

    def add(self, start: int, values: torch.Tensor, positions: torch.Tensor) -> None:
        """Merge entries found for the rows from `start` on."""
        stop = start + len(values)
        count = self.values.shape[1]
        values = torch.cat([self.values[start:stop], values.float()], dim=1)
        positions = torch.cat([self.positions[start:stop], positions], dim=1)
        self.values[start:stop], order = values.topk(count, dim=1)
        self.positions[start:stop] = positions.gather(1, order)

    def keys(self) -> NDArray[np.int64]:
        """The entries in main memory as keys."""
        positions = torch.where(torch.isfinite(self.values), self.positions, -1)
        return keys_of(self.values.cpu().numpy(), positions.cpu().numpy())


def row_top(tile: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest entries of each row of a tile (r, c), c a multiple of 32: values and
    columns, each (r, count)."""
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
    """The `count` largest entries of each column of a tile (r, c), r a multiple of 32: values and
    rows, each (c, count)."""
    rows, columns = tile.shape
    count = min(count, rows)
    if rows <= GROUP * count:
        return tile.T.contiguous().topk(count, dim=1)
    grouped = tile.view(rows // GROUP, GROUP, columns)
    groups = grouped.amax(1).T.contiguous().topk(count, dim=1).indices
    chosen = grouped.gather(0, groups.T[:, None, :].expand(-1, GROUP, -1))
    values, order = chosen.reshape(-1, columns).T.contiguous().topk(count, dim=1)
    return values, groups.gather(1, order // GROUP) * GROUP + order % GROUP


def rounded_up(count: int, unit: int = GROUP) -> int:
    """The next multiple of 32, or of another unit."""
    return -(-count // unit) * unit


class Plan(NamedTuple):
    """How a search is done on a device: rows of source and target of a tile, the type of vectors
    and similarities, and whether all of the source stays on the device."""

    tiles: tuple[int, int]
    dtype: torch.dtype
    resident: bool

    def smaller(self) -> Plan:
        """For a device that ran out of memory."""
        source, target = (max(GROUP, rounded_up(tile // 2)) for tile in self.tiles)
        return Plan((source, target), self.dtype, False)


def planned_tiles(free: int, dim: int, count: int, sides: tuple[int, int], bytes_each: int) -> tuple[int, int]:
    """Rows of a source and of a target tile that fit into `free` bytes of a device, powers of two.

    Held at a time: the tile, `bytes_each` an entry; its group maxima and the entries of the best
    groups, at most `count` · 32 for each row and column, with their positions (8 bytes); both
    blocks of vectors; and the lists of both sides (12 bytes an entry).
    """
    spare = _SHARE * free - 12 * count * sum(sides)
    tile = LARGEST_TILE
    while tile > LEAST_TILE:
        entries = tile * tile * bytes_each * 1.25
        best = 2 * tile * count * GROUP * (bytes_each + 8)
        vectors = 2 * tile * dim * (bytes_each + 4)
        if entries + best + vectors <= spare:
            break
        tile //= 2
    return tile, tile


class _Rows:
    """One side on a device: zero rows to a multiple of 32 and zero columns to a multiple of 16, as
    tensor cores want them. With `resident` all of it stays there, otherwise a block at a time is
    sent."""

    def __init__(self, rows: NDArray[np.float32], device: torch.device, dtype: torch.dtype, resident: bool) -> None:
        self.rows, self.device, self.dtype = torch.from_numpy(rows), device, dtype
        self.whole = self._send(0, len(rows)) if resident else None

    def _send(self, start: int, count: int) -> torch.Tensor:
        part = self.rows[start : start + count]
        shape = rounded_up(len(part)), rounded_up(part.shape[1], 16)
        block = torch.zeros(shape, device=self.device, dtype=self.dtype)
        for first in range(0, len(part), LARGEST_TILE):
            sent = part[first : first + LARGEST_TILE].to(self.dtype).to(self.device)
            block[first : first + len(sent), : part.shape[1]] = sent
        return block

    def block(self, start: int, count: int) -> torch.Tensor:
        """`count` rows from `start` on, fewer at the end; both are multiples of 32."""
        return self._send(start, count) if self.whole is None else self.whole[start : start + count]


class _Device:
    """The share of one device: it takes blocks of target rows and keeps lists for both sides."""

    def __init__(
        self, device: torch.device, source: NDArray[np.float32], target: NDArray[np.float32], plan: Plan, count: int
    ) -> None:
        self.sides, self.plan = (len(source), len(target)), plan
        self.left = _Rows(source, device, plan.dtype, plan.resident)
        self.right = _Rows(target, device, plan.dtype, False)
        self.forward = _Best(len(source), min(count, len(target)), device)
        self.backward = _Best(len(target), min(count, len(source)), device)
        largest = [min(rounded_up(side), tile) for side, tile in zip(self.sides, plan.tiles, strict=True)]
        self.memory = torch.empty(largest[0] * largest[1], device=device, dtype=plan.dtype)

    def product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The similarities of two blocks; overwritten by the next."""
        tile = self.memory[: len(left) * len(right)].view(len(left), len(right))
        return torch.mm(left, right.T, out=tile)

    @torch.inference_mode()
    def take(self, first: int) -> None:
        """Take the best of all tiles of the target rows from `first` on."""
        rows, columns = self.plan.tiles
        right, right_rows = self.right.block(first, columns), min(columns, self.sides[1] - first)
        for start in range(0, self.sides[0], rows):
            left, left_rows = self.left.block(start, rows), min(rows, self.sides[0] - start)
            tile = self.product(left, right)
            tile[left_rows:] = -torch.inf
            tile[:, right_rows:] = -torch.inf
            values, positions = row_top(tile, self.forward.values.shape[1])
            self.forward.add(start, values[:left_rows], positions[:left_rows] + first)
            values, positions = column_top(tile, self.backward.values.shape[1])
            self.backward.add(first, values[:right_rows], positions[:right_rows] + start)


class TorchProposer:
    """Both directions from one product a tile, on one or several devices; `report` is told the
    share that is done.

    `device` is a name or several (``cuda``, ``cuda:0,cuda:1``, ``cuda:all``): each device takes
    blocks of target rows until none are left. Tiles of size 0 are planned from the free memory of
    the devices; when one runs out of memory all get half the tile, down to 256 × 256, before the
    error is passed on. On a GPU vectors are rounded to float16 (`halves`), multiplied with sums in
    float32, and the similarities kept as float16: half the memory to write and to read, which is
    what bounds the pass.

    Memory of a device: a tile, some entries of it, two blocks of vectors or all of the smaller
    side, and 12 bytes for each proposed entry of both sides; see `planned_tiles`.
    """

    def __init__(
        self,
        device: str | Sequence[str] = "cpu",
        source_tile: int = 0,
        target_tile: int = 0,
        report: Callable[[float], None] | None = None,
        halves: bool | None = None,
    ) -> None:
        self.devices = resolve_devices(device)
        self.device = self.devices[0]
        self.source_tile, self.target_tile = rounded_up(source_tile), rounded_up(target_tile)
        self.report = report or silent
        self.halves = self.device.type == "cuda" if halves is None else halves
        self.extra = 4

    def in_float32(self) -> TorchProposer:
        """The same without rounding the vectors."""
        names = [str(device) for device in self.devices]
        return TorchProposer(names, self.source_tile, self.target_tile, self.report, halves=False)

    def plan(self, dim: int, sides: tuple[int, int], count: int) -> Plan:
        """Tiles and types for two sides, the smaller first."""
        dtype = torch.float16 if self.halves else torch.float32
        tiles, resident = (2048, 8192), True
        if self.device.type == "cuda":
            free = min(torch.cuda.mem_get_info(device)[0] for device in self.devices)
            vectors = sides[0] * rounded_up(dim, 16) * dtype.itemsize
            resident = vectors <= free // 4
            tiles = planned_tiles(free - resident * vectors, dim, count, sides, dtype.itemsize)
        return Plan((self.source_tile or tiles[0], self.target_tile or tiles[1]), dtype, resident)

    def __call__(
        self, source: NDArray[np.float32], target: NDArray[np.float32], count: int
    ) -> tuple[Proposal, Proposal]:
        if len(source) > len(target):
            backward, forward = self(target, source, count)
            return forward, backward
        plan = self.plan(source.shape[1], (len(source), len(target)), count)
        while True:
            try:
                lists = self._lists(source, target, plan, count)
                break
            except torch.OutOfMemoryError:
                if min(plan.tiles) <= LEAST_TILE:
                    raise
            # Outside the handler, and collected: the error holds on to frames, and these to memory
            # of the device.
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            plan = plan.smaller()
            log.warning("out of memory on the device: searching again with tiles of %d x %d", *plan.tiles)
        rounding = float32_rounding(source.shape[1])
        if self.halves:
            rounding = half_rounding(torch.from_numpy(source), torch.from_numpy(target), torch.float16, rounded=True)
        return proposal_of(lists[0], rounding), proposal_of(lists[1], rounding)

    def _lists(
        self, source: NDArray[np.float32], target: NDArray[np.float32], plan: Plan, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best of both sides, merged from all devices."""
        parts: list[_Device] = []
        done, lock = 0, threading.Lock()

        def begin(device: torch.device) -> Callable[[int], None]:
            part = _Device(device, source, target, plan, count)
            parts.append(part)

            def work(first: int) -> None:
                nonlocal done
                part.take(first)
                with lock:
                    done += min(plan.tiles[1], len(target) - first)
                    self.report(done / len(target))

            return work

        with full_accumulation():
            begins = [functools.partial(begin, device) for device in self.devices]
            share(range(0, len(target), plan.tiles[1]), begins)
        forward = empty_keys(len(source), min(count, len(target)))
        backward = empty_keys(len(target), min(count, len(source)))
        for part in parts:
            merge_keys(forward, part.forward.keys(), 0, len(source))
            merge_keys(backward, part.backward.keys(), 0, len(target))
        return forward, backward
