"""A bidirectional LSTM whose states are the same to the last bit however the sentences are batched.

A matrix product adds up in an order that depends on its shape, so that a sentence alone and the
same sentence among others differ in the last bits. Here both factors of every product are rounded
to a grid so coarse that no sum can lose a bit in float64: then the order of additions does not
matter, and neither do batch, threads or library. The grid is about as fine as float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from mining.devices import torch_threads
from mining.encoder.tokens import Tokens

_MANTISSA = 53
_LANES = 16
"""Rows come in multiples of this, so that no row falls to the scalar rest of a vectorised loop."""
_SIDE_BY_SIDE = {"cpu": 64, "cuda": 2048}
"""Sentences run side by side."""
_BLOCK_TEXTS = 1024
"""Sentences whose units share one product with the input weights."""


class _Direction(NamedTuple):
    """One direction's weights on the grid, transposed; the cell gate doubled, since tanh(x) = 2
    sigmoid(2x) - 1."""

    inputs: torch.Tensor
    """(d, 4 h) float64"""
    states: torch.Tensor
    """(h, 4 h) float64"""
    bias: torch.Tensor
    """(4 h,) float64"""
    reverse: bool


def grid_bits(length: int) -> int:
    """Bits of each factor so that a sum of `length` products is exact in float64."""
    return (_MANTISSA - math.ceil(math.log2(max(length, 1)))) // 2


def on_grid(values: torch.Tensor, length: int, rows: bool = False) -> torch.Tensor:
    """`values` (n, m) in float64, rounded to `grid_bits(length)` bits of the largest (of each row,
    with `rows`)."""
    wide = values.double()
    largest = wide.abs().amax(1, keepdim=True) if rows else wide.abs().max()
    # Division by the mantissa leaves the power of two, exactly.
    power = torch.where(largest > 0, largest / torch.frexp(largest)[0], 1.0)
    step = power * 2.0 ** -grid_bits(length)
    return (wide / step).round_().mul_(step)


def exact_means(
    table: torch.Tensor, weights: Mapping[str, torch.Tensor], directions: Sequence[str], pieces: Tokens
) -> np.ndarray:
    """Mean states of both directions: (n, 2 h) float32; a sentence without ids is a zero row.

    `weights` has torch's names, ended by each of `directions` (forward, backward). Uses as many
    threads as torch has.
    """
    parts = [_direction(weights, ending, place > 0) for place, ending in enumerate(directions)]
    hidden = parts[0].states.shape[0]
    order = np.argsort(-pieces.lengths, kind="stable")
    order = order[: np.count_nonzero(pieces.lengths)]
    means = np.zeros((len(pieces.lengths), len(parts) * hidden), np.float32)
    side_by_side = _SIDE_BY_SIDE[table.device.type]
    workers = torch.get_num_threads()

    def run(ids: np.ndarray, projected: list[torch.Tensor], rows: np.ndarray) -> None:
        with torch.inference_mode():
            starts, lengths = _tensor(pieces.offsets[rows], table), _tensor(pieces.lengths[rows], table)
            for place, (part, inputs) in enumerate(zip(parts, projected, strict=True)):
                sums = _sums(part, inputs, _tensor(ids, table), starts, lengths)
                columns = slice(place * hidden, (place + 1) * hidden)
                means[rows, columns] = (sums / lengths[:, None]).float().cpu().numpy()

    with torch_threads(1), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for start in range(0, len(order), _BLOCK_TEXTS):
            texts = order[start : start + _BLOCK_TEXTS]
            ids, projected = _project(table, parts, pieces, texts)
            blocks = [texts[place : place + side_by_side] for place in range(0, len(texts), side_by_side)]
            list(pool.map(lambda rows, ids=ids, projected=projected: run(ids, projected, rows), blocks))
    return means


def _direction(weights: Mapping[str, torch.Tensor], ending: str, reverse: bool) -> _Direction:
    inputs, states = (weights[f"{name}_l0{ending}"].detach() for name in ("weight_ih", "weight_hh"))
    bias = weights[f"bias_ih_l0{ending}"].detach().double() + weights[f"bias_hh_l0{ending}"].detach().double()
    hidden = states.shape[1]
    double = torch.ones(len(bias), 1, dtype=torch.float64, device=bias.device)
    double[2 * hidden : 3 * hidden] = 2.0
    by_input, by_state = ((on_grid(matrix, matrix.shape[1]) * double).T.contiguous() for matrix in (inputs, states))
    return _Direction(by_input, by_state, bias * double[:, 0], reverse)


def _project(
    table: torch.Tensor, parts: Sequence[_Direction], pieces: Tokens, texts: np.ndarray
) -> tuple[np.ndarray, list[torch.Tensor]]:
    """Inputs of the gates, (r, 4 h) for each direction, of the r distinct units of `texts`, and all
    ids among the r.

    Ids of other texts come out as they may: they are not looked at.
    """
    distinct = np.unique(pieces.take(texts).ids)
    ids = np.minimum(np.searchsorted(distinct, pieces.ids), len(distinct) - 1)
    rows = table.detach()[_tensor(distinct, table)]
    grid = on_grid(rows, rows.shape[1], rows=True)
    return ids, [(grid @ part.inputs).add_(part.bias) for part in parts]


def _sums(
    part: _Direction, inputs: torch.Tensor, ids: torch.Tensor, starts: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Sums of the states of sentences of falling `lengths`: (n, h) float64."""
    count, hidden = len(starts), part.states.shape[0]
    spare = -count % _LANES
    # Rows to fill up run over the last sentence once more.
    starts, lengths = torch.cat([starts, starts[-1:].expand(spare)]), torch.cat([lengths, lengths[-1:].expand(spare)])
    shape = (count + spare, hidden)
    sums, cells, states = (torch.zeros(shape, dtype=torch.float64, device=inputs.device) for _ in range(3))
    unit = 2.0 ** grid_bits(hidden)
    longest = int(lengths[0])
    active = np.searchsorted(-lengths.cpu().numpy(), -np.arange(longest))
    for step in range(longest):
        rows = int(active[step])
        padded = rows + -rows % _LANES
        last = lengths[:padded] - 1
        places = (
            starts[:padded] + (last - step).clamp_(min=0) if part.reverse else starts[:padded] + last.clamp(max=step)
        )
        gates = inputs[ids[places]].add_(states[:padded] @ part.states).sigmoid_()
        enter, keep, new, leave = gates.chunk(4, dim=1)
        cells = cells[:padded].mul_(keep).add_(new.mul(2.0).sub_(1.0).mul_(enter))
        states = cells.mul(2.0).sigmoid_().mul_(2.0).sub_(1.0).mul_(leave).mul_(unit).round_().div_(unit)
        sums[:rows] += states[:rows]
    return sums[:count]


def _tensor(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(like.device)
