"""From proposals to certified lists: near entries recomputed, rows that stay open found, and those
searched again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges
from mining.devices import full_accumulation, on_single_threads
from mining.search.neighbours import Neighbours, no_neighbours, place
from mining.search.proposals import Proposal, float32_rounding
from mining.search.tile_kernels import find_hits, hits_for, row_flags
from mining.search.vectors import cosine, products_for

#: Rows worth a thread of their own.
_ROWS = 256
#: Queries and base rows multiplied at a time in a second search: on the CPU a tile stays in the
#: cache, on another device the places of all entries of a tile still fit into memory.
_TILE = (128, 1024)
_DEVICE_TILE = (1024, 16_384)


@compiled
def _certify(
    queries: Any,
    base: Any,
    positions: Any,
    similarities: Any,
    rounding: Any,
    ids: Any,
    cosines: Any,
    is_open: Any,
    start: Any,
    stop: Any,
) -> Any:
    """Recompute what may be among the nearest; returns by how much a similarity exceeds its bound,
    at most 0.0 if none does.

    The k-th of the list is at least the k-th similarity less its error. An entry that could reach
    it is recomputed. A row is open when an entry that was not proposed, so at most the last
    similarity plus its error, could reach the k-th recomputed cosine.
    """
    absolute, relative = rounding
    count, k = positions.shape[1], ids.shape[1]
    products = products_for(queries.shape[1])
    worst = 0.0
    for row in range(start, stop):
        kth = np.float64(similarities[row, min(k, count) - 1])
        least = kth - relative * abs(kth) - absolute
        for c in range(count):
            similarity = np.float64(similarities[row, c])
            error = absolute + relative * abs(similarity)
            if positions[row, c] < 0 or similarity + error < least:
                break
            value = cosine(queries[row], base[positions[row, c]], products)
            worst = max(worst, abs(similarity - np.float64(value)) - error)
            place(ids, cosines, row, positions[row, c], value)
        last = np.float64(similarities[row, count - 1])
        if count < base.shape[0]:
            is_open[row] = np.float64(cosines[row, k - 1]) <= last + relative * abs(last) + absolute
    return worst


class Certified(NamedTuple):
    """Lists (n, k), the rows (·,) int64 that are not settled, and by how much a bound was exceeded
    (0.0: never)."""

    found: Neighbours
    open_rows: NDArray[np.int64]
    excess: float


def certify(queries: NDArray[np.float32], base: NDArray[np.float32], proposal: Proposal, k: int) -> Certified:
    """The k nearest of what was proposed, cosines recomputed, and the rows where others may be as
    near.

    `queries` (n, d) and `base` (m, d) float32; `proposal` (n, c). A row is settled, not open, if
    its list is that of a search through all of `base`. With fewer than k proposed a list ends
    early.
    """
    found = no_neighbours(len(queries), k)
    is_open = np.zeros(len(queries), np.bool_)
    if proposal.positions.shape[1] == 0:
        return Certified(found, np.empty(0, np.int64), 0.0)
    rounding = (float(proposal.rounding.absolute), float(proposal.rounding.relative))
    excesses = [0.0]

    def work(start: int, stop: int) -> None:
        excesses.append(
            _certify(queries, base, proposal.positions, proposal.similarities, rounding, *found, is_open, start, stop)
        )

    in_ranges(work, len(queries), torch.get_num_threads(), _ROWS)
    return Certified(found, np.flatnonzero(is_open), max(excesses))


@compiled
def _take_near(
    tile: Any, first: Any, queries: Any, base: Any, floors: Any, margin: Any, ids: Any, cosines: Any
) -> None:
    """Recompute the entries of a tile that may reach the floor of their row, and raise the floors.

    `tile` (q, c): similarities of the queries (q, d) with the rows of `base` (m, d) from `first`
    on.
    """
    columns, last = tile.shape[1], ids.shape[1] - 1
    flags, hits = row_flags(columns), hits_for(columns, 1)
    limits, thresholds = np.full(columns, np.inf, np.float32), np.empty(1, np.float32)
    products = products_for(queries.shape[1])
    for i in range(tile.shape[0]):
        thresholds[0] = floors[i] - margin
        for h in range(find_hits(tile[i : i + 1], thresholds, limits, flags, hits)):
            for j in range(8 * hits[h, 1], min(8 * hits[h, 1] + 8, columns)):
                if tile[i, j] > floors[i] - margin:
                    place(ids, cosines, i, first + j, cosine(queries[i], base[first + j], products))
                    floors[i] = max(floors[i], cosines[i, last])


@compiled
def _take_pairs(rows: Any, columns: Any, first: Any, queries: Any, base: Any, ids: Any, cosines: Any) -> None:
    """Recompute the pairs of ``queries[rows[p]]`` and ``base[first + columns[p]]``."""
    products = products_for(queries.shape[1])
    for p in range(rows.shape[0]):
        row, other = rows[p], first + columns[p]
        place(ids, cosines, row, other, cosine(queries[row], base[other], products))


def _margin(dim: int) -> np.float32:
    """How far below its floor an entry may seem to be; entries must exceed floor less margin, so a
    little more."""
    return np.float32(float32_rounding(dim).absolute + 2.0**-20)


def near_on_cpu(
    queries: NDArray[np.float32], base: NDArray[np.float32], floors: NDArray[np.float32], found: Neighbours
) -> None:
    rows, columns = _TILE
    margin = _margin(base.shape[1])
    right = torch.from_numpy(base)

    def begin() -> Callable[[int], None]:
        memory = np.empty(rows * columns, np.float32)

        def work(start: int) -> None:
            part = slice(start, start + rows)
            left = torch.from_numpy(queries[part])
            for first in range(0, len(base), columns):
                block = right[first : first + columns]
                tile = memory[: len(left) * len(block)].reshape(len(left), len(block))
                torch.mm(left, block.T, out=torch.from_numpy(tile))
                _take_near(tile, first, queries[part], base, floors[part], margin, found.ids[part], found.cosines[part])

        return work

    on_single_threads(range(0, len(queries), rows), begin)


def near_on_device(
    queries: NDArray[np.float32],
    base: NDArray[np.float32],
    floors: NDArray[np.float32],
    found: Neighbours,
    device: torch.device,
) -> None:
    rows, columns = _DEVICE_TILE
    for first in range(0, len(base), columns):
        block = torch.from_numpy(base[first : first + columns]).to(device)
        for start in range(0, len(queries), rows):
            part = slice(start, start + rows)
            least = torch.from_numpy(floors[part] - _margin(base.shape[1])).to(device)
            near = torch.mm(torch.from_numpy(queries[part]).to(device), block.T) > least[:, None]
            places, others = np.ascontiguousarray(near.nonzero().cpu().numpy().T)
            _take_pairs(places, others, first, queries[part], base, found.ids[part], found.cosines[part])
            np.maximum(floors[part], found.cosines[part, -1], out=floors[part])


def search_near(
    queries: NDArray[np.float32], base: NDArray[np.float32], floors: NDArray[np.float32], k: int, device: torch.device
) -> Neighbours:
    """The k nearest of a few queries (q, d) whose k-th cosine is known to be at least `floors` (q,)
    float32: all that a float32 product does not rule out is recomputed."""
    found, floors = no_neighbours(len(queries), k), floors.copy()
    if device.type == "cpu":
        near_on_cpu(queries, base, floors, found)
    else:
        with full_accumulation():
            near_on_device(queries, base, floors, found, device)
    return found
