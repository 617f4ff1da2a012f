"""The mean of the states of a bidirectional LSTM over pieces or words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from mining.config.network import NetworkSettings
from mining.encoder.networks.average import index_tensor, uniform
from mining.encoder.networks.base import Gradients, Network
from mining.encoder.networks.exact_lstm import exact_means
from mining.encoder.tokens import Tokens

DIRECTIONS = ("", "_reverse")
PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
WEIGHTS = tuple(part + direction for direction in DIRECTIONS for part in PARTS)
"""Names and order of torch's parameters of one bidirectional layer."""
_GATES = 4
_BLOCK_TEXTS = 1024
"""Sentences of about one length that are run together where no gradient is asked for."""


class _Packed(NamedTuple):
    """Sentences of rows side by side, longest first, without padding."""

    order: np.ndarray
    """the sentences that have ids, (m,)"""
    places: np.ndarray
    """(total,): where in the ids each step of each sentence stands"""
    sizes: torch.Tensor
    """by step, the number of sentences that long"""
    owners: np.ndarray
    """(total,): place in `order`"""


class _Tape(NamedTuple):
    vectors: torch.Tensor
    leaf: torch.Tensor
    rows: torch.Tensor
    weights: list[torch.Tensor]


class LstmNetwork(Network):
    """LSTM AVG: states of both directions at each unit, side by side, averaged over the sentence.

    Wieting et al. 2019, section 2 (BLSTM-SP). One layer, zero initial states.
    """

    kind = "lstm"

    def __init__(self, unit: str, table: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> None:
        """`table` (rows, d) of the unit called `unit`; `weights` float32 under the names of
        `WEIGHTS`.

        Raises ValueError when the shapes do not fit each other.
        """
        self.tables = {unit: table}
        self.weights = {name: weights[name] for name in WEIGHTS}
        self.hidden = sum(self.weights["weight_hh_l0"].shape[-1:])
        self.dim = 2 * self.hidden
        shapes = _shapes(table.shape[1], self.hidden)
        for name, tensor in self.weights.items():
            if tuple(tensor.shape) != shapes[name]:
                raise ValueError(f"'{name}' has shape {tuple(tensor.shape)} where {shapes[name]} fits")

    @classmethod
    def from_tensors(cls, settings: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> LstmNetwork:
        """The network of saved `tensors`; KeyError for a missing one, ValueError for one that does
        not fit."""
        units = [name for name in tensors if name not in WEIGHTS]
        if len(units) != 1:
            raise ValueError(f"an LSTM has one table, not {len(units)}")
        return cls(units[0], tensors[units[0]], tensors)

    @property
    def table(self) -> torch.Tensor:
        """The only table."""
        return next(iter(self.tables.values()))

    def forward(self, units: Sequence[Tokens]) -> tuple[torch.Tensor, _Tape | None]:
        """See `Network.forward`. Where torch takes no gradient there is no tape and long batches go
        block by block."""
        (pieces,) = units
        with_tape = not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
        order = np.argsort(-pieces.lengths, kind="stable")
        order = order[: np.count_nonzero(pieces.lengths)]
        vectors = torch.zeros((len(pieces.lengths), self.dim), device=self.device)
        if not len(order):
            return vectors, None
        if not with_tape:
            for start in range(0, len(order), _BLOCK_TEXTS):
                packed = _pack(pieces, order[start : start + _BLOCK_TEXTS])
                data = self.table[index_tensor(pieces.ids[packed.places], self.table)]
                vectors[index_tensor(packed.order, vectors)] = self._means(packed, data, list(self.weights.values()))
            return vectors, None
        packed = _pack(pieces, order)
        rows, inverse = np.unique(pieces.ids[packed.places], return_inverse=True)
        row_tensor = index_tensor(rows, self.table)
        leaf = self.table[row_tensor].requires_grad_()
        weights = [weight.detach().requires_grad_() for weight in self.weights.values()]
        means = self._means(packed, leaf[index_tensor(inverse, leaf)], weights)
        vectors = vectors.index_copy(0, index_tensor(packed.order, vectors), means)
        return vectors.detach(), _Tape(vectors, leaf, row_tensor, weights)

    def _means(self, packed: _Packed, data: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        """Mean states (m, dim) of the packed unit vectors `data` (total, d)."""
        start = data.new_zeros((2, len(packed.order), self.hidden))
        # Inputs are packed: (data, sizes, states, weights, biases?, layers, dropout, training?,
        # bidirectional?).
        states, _, _ = torch.lstm(data, packed.sizes, (start, start), weights, True, 1, 0.0, False, True)
        sums = data.new_zeros((len(packed.order), self.dim)).index_add(0, index_tensor(packed.owners, data), states)
        counts = np.bincount(packed.owners).astype(np.float32)[:, None]
        return sums / torch.from_numpy(counts).to(sums.device)

    def backward(self, tape: _Tape | None, gradient: torch.Tensor) -> Gradients:
        """See `Network.backward`: torch's own gradient through the recurrence."""
        if tape is None:
            none = torch.zeros(0, dtype=torch.int64, device=self.device), self.table[:0]
            return Gradients(
                dict.fromkeys(self.tables, none), {n: torch.zeros_like(w) for n, w in self.weights.items()}
            )
        by_leaf, *by_weight = torch.autograd.grad(tape.vectors, [tape.leaf, *tape.weights], gradient)
        rows = dict.fromkeys(self.tables, (tape.rows, by_leaf))
        return Gradients(rows, dict(zip(self.weights, by_weight, strict=True)))

    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """See `Network.vectors`: in float64 with exact products (`exact_means`), then rounded to
        float32."""
        (pieces,) = units
        return exact_means(self.table, self.weights, DIRECTIONS, pieces)

    def settings(self) -> dict[str, Any]:
        """See `Network.settings`."""
        return {"kind": self.kind, "hidden": self.hidden}


def _shapes(dim: int, hidden: int) -> dict[str, tuple[int, ...]]:
    rows = _GATES * hidden
    shapes = dict(zip(PARTS, ((rows, dim), (rows, hidden), (rows,), (rows,)), strict=True))
    return {part + direction: shapes[part] for direction in DIRECTIONS for part in PARTS}


def fresh_lstm(settings: NetworkSettings, sizes: Sequence[int], init: float, generator: torch.Generator) -> LstmNetwork:
    """An untrained network: vectors uniform in (-init, init), weights in (-1, 1) over the root of
    the states."""
    table = uniform((sizes[0], settings.dim), init, generator)
    width = 1 / math.sqrt(settings.hidden)
    shapes = _shapes(settings.dim, settings.hidden)
    weights = {name: uniform(shape, width, generator) for name, shape in shapes.items()}
    return LstmNetwork(settings.tokens[0], table, weights)


def _pack(pieces: Tokens, order: np.ndarray) -> _Packed:
    """The sentences `order`, longest first and none empty, one step after another as torch packs
    them."""
    lengths = pieces.lengths[order]
    sizes = len(order) - np.searchsorted(lengths[::-1], np.arange(lengths[0]), side="right")
    owners = np.arange(sizes.sum()) - np.repeat(np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    steps = np.repeat(np.arange(len(sizes)), sizes)
    places = np.asarray(pieces.offsets)[order][owners] + steps
    return _Packed(order, places, torch.from_numpy(sizes.astype(np.int64)), owners)
