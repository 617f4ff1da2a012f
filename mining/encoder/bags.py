"""Sums of the rows of a table, and the gradient through them, by torch.

A bag holds the ids of the tokens of one text: the texts of a `Tokens` are bags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mining.lazy import lazy

if TYPE_CHECKING:
    import torch

    from mining.encoder.tokens import Tokens
else:
    torch = lazy("torch")


def index_tensor(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """`values` as an int64 tensor on the device of `like`."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(like.device)


def bags_on(bags: Tokens, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and offsets as `bag_sums` takes them, on the device of `table`."""
    return index_tensor(bags.ids, table), index_tensor(bags.offsets, table)


def bag_sums(table: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Sums of the rows of `table` named by each bag.

    `table` (rows, dim) float32; `ids` (total,) and `offsets` (n + 1,) integers of one dtype.
    Returns (n, dim) float32. A bag is summed in its own order by one thread, so the result does not
    depend on its neighbours.
    """
    if len(offsets) == 1:
        return table.new_zeros((0, table.shape[1]))
    return torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum", include_last_offset=True)


def row_gradient(bags: Tokens, by_sum: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the gradient by each bag's sum (n, dim) to the gradient by each table row the bags
    touch.

    Returns the distinct rows (r,) ascending and (r, dim). A row's gradient is the sum over the bags
    that hold it: the same summation of bags again, with tokens and bags changed over, always in the
    same order.
    """
    order = np.argsort(bags.ids, kind="stable")
    ids = bags.ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    owner = np.repeat(np.arange(len(bags.offsets) - 1), bags.lengths)[order]
    rows, members, offsets = (index_tensor(part, by_sum) for part in (ids[starts], owner, np.append(starts, len(ids))))
    return rows, bag_sums(by_sum, members, offsets)
