"""Exact nearest neighbours in both directions.

The proposals of a tile pass are approximate in their last bits. Each list is therefore recomputed
by `exact_cosines` and certified: everything outside the proposal is at most its last entry plus the
bound on its error. Where that does not separate the k-th neighbour from the rest (many equal
vectors, say), the row is searched again, recomputing everything near its limit. The result is the k
nearest by (cosine descending, id), whatever the tile, library or device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mining.compiled import (
    BoolVector,
    Float32Matrix,
    Float32Vector,
    Int64Matrix,
    Int64Vector,
    UInt8Vector,
    compiled,
    in_ranges,
)
from mining.devices import full_accumulation, on_single_threads
from mining.errors import RunError
from mining.search.tiles import Proposal, Proposer, TileProposer, float32_rounding
from mining.search.topk import Neighbours, cut, flags_for, no_neighbours, place
from mining.search.vectors import VectorShard, cosine, products_for, reference_cosines, spread

log = logging.getLogger(__name__)

#: Rows worth a thread of their own.
_ROWS = 256
#: Queries and base rows multiplied at a time in a second search: on the CPU a tile stays in the
#: cache, on another device the positions of all entries of a tile still fit into memory.
_TILE = (128, 1024)
_DEVICE_TILE = (1024, 16_384)


def reference_neighbours(queries: NDArray[np.float32], base: NDArray[np.float32], k: int) -> Neighbours:
    """All pairs, no tiles: what the fast search must equal. For tests and small inputs."""
    n, m = len(queries), len(base)
    left, right = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    cosines = reference_cosines(queries[left], base[right]).reshape(n, m)
    return cut(right.reshape(n, m).astype(np.int64), cosines, k)


@compiled
def _certify(
    queries: Float32Matrix,
    base: Float32Matrix,
    positions: Int64Matrix,
    similarities: Float32Matrix,
    rounding: tuple[float, float],
    ids: Int64Matrix,
    cosines: Float32Matrix,
    is_open: BoolVector,
    start: int,
    stop: int,
) -> float:
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
def _mark_above(entries: Float32Vector, limit: np.float32, flags: UInt8Vector) -> None:
    for j in range(entries.shape[0]):
        flags[j] = np.uint8(entries[j] > limit)


@compiled
def _take_near(
    tile: Float32Matrix,
    first: int,
    queries: Float32Matrix,
    base: Float32Matrix,
    floors: Float32Vector,
    margin: np.float32,
    ids: Int64Matrix,
    cosines: Float32Matrix,
) -> None:
    """Recompute the entries of a tile that may reach the floor of their row, and raise the floors.

    `tile` (q, c): similarities of the queries (q, d) with the rows of `base` (m, d) from `first`
    on.
    """
    columns, last = tile.shape[1], ids.shape[1] - 1
    flags = flags_for(columns)
    words = flags.view(np.uint64)
    products = products_for(queries.shape[1])
    for i in range(tile.shape[0]):
        _mark_above(tile[i], floors[i] - margin, flags)
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, columns)):
                if tile[i, j] > floors[i] - margin:
                    place(ids, cosines, i, first + j, cosine(queries[i], base[first + j], products))
                    floors[i] = max(floors[i], cosines[i, last])


@compiled
def _take_pairs(
    rows: Int64Vector,
    columns: Int64Vector,
    first: int,
    queries: Float32Matrix,
    base: Float32Matrix,
    ids: Int64Matrix,
    cosines: Float32Matrix,
) -> None:
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
    """`search_near` by float32 products of the CPU, whose lists it changes in place."""
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
    """The same by products of another device."""
    rows, columns = _DEVICE_TILE
    for first in range(0, len(base), columns):
        block = torch.from_numpy(base[first : first + columns]).to(device)
        for start in range(0, len(queries), rows):
            part = slice(start, start + rows)
            least = torch.from_numpy(floors[part] - _margin(base.shape[1])).to(device)
            near = torch.mm(torch.from_numpy(queries[part]).to(device), block.T) > least[:, None]
            rows_here, others = np.ascontiguousarray(near.nonzero().cpu().numpy().T)
            _take_pairs(rows_here, others, first, queries[part], base, found.ids[part], found.cosines[part])
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


class _BoundExceededError(Exception):
    """A similarity was further from its cosine than the product allows."""


def _settle(
    queries: NDArray[np.float32], base: NDArray[np.float32], proposal: Proposal, k: int, propose: Proposer
) -> Neighbours:
    """The exact k nearest from a proposal of more than k."""
    found, rows, excess = certify(queries, base, proposal, k)
    if excess > 0:
        raise _BoundExceededError(f"{excess:.2g} more than it may")
    if len(rows):
        log.debug("%d of %d rows are searched again", len(rows), len(queries))
        again = search_near(queries[rows], base, found.cosines[rows, k - 1], k, propose.device)
        found.ids[rows], found.cosines[rows] = again.ids, again.cosines
    return found


def _check_dimensions(left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise ValueError(f"vectors of different dimension: {left.shape} and {right.shape}")


def _search(
    source: NDArray[np.float32], target: NDArray[np.float32], k: int, propose: Proposer | None, directions: int
) -> list[Neighbours]:
    """Forward lists, and backward ones if two `directions` are asked for."""
    _check_dimensions(source, target)
    sides = ((source, target), (target, source))[:directions]
    if len(source) == 0 or len(target) == 0:
        return [no_neighbours(len(queries), k) for queries, _ in sides]
    first = propose or TileProposer()
    for attempt in (first, first.in_float32()):
        proposals = attempt(source, target, k + attempt.extra)
        try:
            return [_settle(*side, proposal, k, attempt) for side, proposal in zip(sides, proposals, strict=False)]
        except _BoundExceededError as error:
            reason = str(error)
            log.warning("the product errs by %s: searching again in float32", reason)
    raise RunError(
        f"search: the float32 product of this device errs by {reason}; set another search.device or search.backend"
    )


def nearest_neighbours(
    source: NDArray[np.float32], target: NDArray[np.float32], k: int, propose: Proposer | None = None
) -> tuple[Neighbours, Neighbours]:
    """The k nearest target rows of each source row, and the k nearest source rows of each target
    row.

    `source` (n, d) and `target` (m, d) are float32 C-contiguous unit rows without invalid (zero)
    ones. `propose` is the tile pass, by default that of the CPU. Returns forward (n, k) and
    backward (m, k) lists of positions. Raises ValueError if the dimensions differ.

    Each recomputed cosine is held against the bound on the error of its similarity. Should a
    processor or library round worse than it, the search is done again with a float32 product;
    RunError if that is wrong as well.
    """
    forward, backward = _search(source, target, k, propose, 2)
    return forward, backward


def knn(queries: NDArray[np.float32], base: NDArray[np.float32], k: int, propose: Proposer | None = None) -> Neighbours:
    """The k nearest rows of `base` for each of `queries`: one direction of `nearest_neighbours`."""
    return _search(queries, base, k, propose, 1)[0]


def search_shards(
    source: VectorShard, target: VectorShard, k: int, propose: Proposer | None = None
) -> tuple[Neighbours, Neighbours]:
    """Exact neighbours between two shards: forward (n, k) for all source rows, backward (m, k) for
    all target rows."""
    forward, backward = nearest_neighbours(source.vectors, target.vectors, k, propose)
    return spread(forward, source, target, k), spread(backward, target, source, k)
