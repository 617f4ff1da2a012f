"""Exact nearest neighbours in both directions.

The proposals of a tile pass are approximate in their last bits. Each list is therefore recomputed
by `exact_cosines` and certified: everything outside the proposal is at most its last entry plus the
bound on its error. Where that does not separate the k-th neighbour from the rest (many equal
vectors, say), the row is searched again, recomputing everything near its limit. The result is the k
nearest by (cosine descending, id), whatever the tile, library or device.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from mining.errors import RunError
from mining.search.certify import certify, search_near
from mining.search.neighbours import Neighbours, cut, no_neighbours
from mining.search.proposals import Proposal, Proposer
from mining.search.tiles import TileProposer
from mining.search.vectors import reference_cosines

log = logging.getLogger(__name__)


def reference_neighbours(queries: NDArray[np.float32], base: NDArray[np.float32], k: int) -> Neighbours:
    """All pairs, no tiles: what the fast search must equal. For tests and small inputs."""
    n, m = len(queries), len(base)
    left, right = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    cosines = reference_cosines(queries[left], base[right]).reshape(n, m)
    return cut(right.reshape(n, m).astype(np.int64), cosines, k)


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
