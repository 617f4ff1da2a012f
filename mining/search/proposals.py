"""What a pass over tiles hands to the certification: its best entries, and how wrong its
similarities may be.

A product of rounded vectors differs from the cosine by no more than

    |q(x)·q(y) - x·y|  <=  |q(x) - x| |y| + |q(x)| |q(y) - y|         (Cauchy-Schwarz)

and its summation in float32 by no more than (d + 2) 2^-24 times the sum of the absolute products,
which is at most 1 for unit vectors, in whatever order it is done (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). The lengths of what the rounding took away are measured, not
assumed: half of the worst case, and next to nothing for float16 vectors that were stored as
float16.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

#: Roundings of float32 outside the product: unit rows are so to 2^-23, cosines are rounded to
#: float32.
_SLACK = 2.0**-21
_BLOCK = 16_384


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
