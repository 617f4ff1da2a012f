"""Means of piece vectors and their unit vectors, the same to the last bit however the texts are
batched."""

from __future__ import annotations

import numpy as np
import torch

from mining.encoder.tokens import Tokens
from mining.encoder.word_cache.sums import unit_rows_of


def bag_sums(table: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Sums of the rows of `table` named by each bag.

    `table` (rows, dim) float32; `ids` (total,) and `offsets` (n + 1,) integers of one dtype.
    Returns (n, dim) float32. A bag is summed in its own order by one thread, so the result does not
    depend on its neighbours.
    """
    if len(offsets) == 1:
        return table.new_zeros((0, table.shape[1]))
    return torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum", include_last_offset=True)


def unit_rows(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length one, and which rows have a direction at all.

    `sums` (n, dim) float32. The norm is accumulated in float64 in a fixed order (`words.sums`), so
    a row's bytes depend on that row only. Returns (n, dim) float32 and (n,) bool; rows of norm zero
    (or not finite) stay zero and are invalid.
    """
    rows, valid = np.array(sums, np.float32, order="C"), np.empty(len(sums), bool)
    unit_rows_of(rows, 0, len(rows), valid)
    return rows, valid


def row_gradient(bags: Tokens, by_sum: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the gradient by each bag's sum (n, dim) to the gradient by each table row the bags
    touch.

    Returns the distinct rows (r,) ascending and (r, dim). A row's gradient is the sum over the bags
    that hold it: the same summation of bags again, with pieces and bags changed over, always in the
    same order.
    """
    order = np.argsort(bags.ids, kind="stable")
    ids = bags.ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)[order]
    rows, members, offsets = (
        torch.from_numpy(np.ascontiguousarray(part, dtype=np.int64)).to(by_sum.device)
        for part in (ids[starts], owner, np.append(starts, len(ids)))
    )
    return rows, bag_sums(by_sum, members, offsets)
