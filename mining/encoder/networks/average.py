"""Averaging: the mean of the vectors of a sentence's units, and CHARAGRAM, their sum under an
activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from mining.config.network import NetworkSettings
from mining.encoder.averaging import bag_sums, row_gradient
from mining.encoder.networks.base import Gradients, Network
from mining.encoder.tokens import Tokens
from mining.shown import short

PROJECTION = "projection"
BIAS = "bias"


class _AverageTape(NamedTuple):
    units: Sequence[Tokens]
    shares: list[torch.Tensor]
    """by unit, (n, 1): one divided by the number of ids"""
    joined: torch.Tensor | None
    """(n, width) before the projection"""


class AverageNetwork(Network):
    """Means of unit vectors, summed or concatenated over the kinds of units, then optionally mapped
    linearly.

    Wieting et al. 2019, section 2 (SP, WORD, TRIGRAM); the map after averaging is
    PARAGRAM-PHRASE's.
    """

    kind = "average"

    def __init__(
        self, tables: Mapping[str, torch.Tensor], combine: str = "sum", projection: torch.Tensor | None = None
    ) -> None:
        """`tables` by kind of unit, (rows, d) float32 in the order of the units; `projection` (dim,
        width).

        Raises ValueError when the shapes do not fit each other.
        """
        self.tables = dict(tables)
        self.combine = combine
        self.weights = {} if projection is None else {PROJECTION: projection}
        for name, table in self.tables.items():
            if table.ndim != 2:
                raise ValueError(f"'{short(name)}' has shape {tuple(table.shape)}, not that of a table")
        widths = [table.shape[1] for table in self.tables.values()]
        self._width = sum(widths) if combine == "concatenate" else widths[0]
        if combine == "sum" and len(set(widths)) > 1:
            raise ValueError(f"tables of {' and '.join(map(str, widths))} columns cannot be added up")
        if projection is not None and (projection.ndim != 2 or projection.shape[1] != self._width):
            raise ValueError(f"'{PROJECTION}' has shape {tuple(projection.shape)} for vectors of {self._width}")
        self.dim = self._width if projection is None else projection.shape[0]

    def forward(self, units: Sequence[Tokens]) -> tuple[torch.Tensor, _AverageTape]:
        """See `Network.forward`."""
        shares = [_shares(pieces, self.device) for pieces in units]
        means = [
            bag_sums(table, *_on(pieces, table)).mul_(share)
            for table, pieces, share in zip(self.tables.values(), units, shares, strict=True)
        ]
        joined = self._join(means)
        if PROJECTION not in self.weights:
            return joined, _AverageTape(units, shares, None)
        return joined @ self.weights[PROJECTION].T, _AverageTape(units, shares, joined)

    def _join(self, means: list[torch.Tensor]) -> torch.Tensor:
        if self.combine == "concatenate":
            return torch.cat(means, dim=1)
        total = means[0]
        for other in means[1:]:
            total.add_(other)
        return total

    def backward(self, tape: _AverageTape, gradient: torch.Tensor) -> Gradients:
        """See `Network.backward`."""
        weights = {}
        if tape.joined is not None:
            weights[PROJECTION] = gradient.T @ tape.joined
            gradient = gradient @ self.weights[PROJECTION]
        rows, start = {}, 0
        for (name, table), pieces, share in zip(self.tables.items(), tape.units, tape.shares, strict=True):
            part = gradient
            if self.combine == "concatenate":
                part = gradient[:, start : start + table.shape[1]]
                start += table.shape[1]
            rows[name] = row_gradient(pieces, part * share)
        return Gradients(rows, weights)

    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """See `Network.vectors`. The projection is applied to the tables beforehand: the map is
        linear."""
        with torch.inference_mode():
            return self.projected().forward(units)[0].cpu().numpy()

    def projected(self) -> AverageNetwork:
        """The same encoder without a projection: its tables mapped, in float64, row by row."""
        if PROJECTION not in self.weights:
            return self
        matrix = self.weights[PROJECTION].double()
        tables, start = {}, 0
        for name, table in self.tables.items():
            columns = matrix
            if self.combine == "concatenate":
                columns = matrix[:, start : start + table.shape[1]]
                start += table.shape[1]
            tables[name] = (table.double() @ columns.T).float()
        return AverageNetwork(tables, "sum")

    def settings(self) -> dict[str, Any]:
        """See `Network.settings`."""
        return {"kind": self.kind, "combine": self.combine}


class _CharagramTape(NamedTuple):
    pieces: Tokens
    states: torch.Tensor


class CharagramNetwork(Network):
    """``activation(bias + sum of the n-gram vectors)``; Wieting et al. 2016 (thesis of 2020,
    chapter 3)."""

    kind = "charagram"

    def __init__(self, table: torch.Tensor, bias: torch.Tensor, activation: str = "tanh") -> None:
        """`table` (n-grams, dim) and `bias` (dim,) float32; raises ValueError when they do not fit
        each other."""
        if bias.shape != table.shape[1:]:
            raise ValueError(f"'{BIAS}' has shape {tuple(bias.shape)} for vectors of {table.shape[1]}")
        self.tables = {"ngrams": table}
        self.weights = {BIAS: bias}
        self.activation = activation
        self.dim = table.shape[1]

    def forward(self, units: Sequence[Tokens]) -> tuple[torch.Tensor, _CharagramTape]:
        """See `Network.forward`."""
        table, (pieces,) = self.tables["ngrams"], units
        states = bag_sums(table, *_on(pieces, table)).add_(self.weights[BIAS])
        if self.activation == "tanh":
            states.tanh_()
        empty = torch.from_numpy(pieces.lengths == 0).to(states.device)
        states[empty] = 0.0
        return states, _CharagramTape(pieces, states)

    def backward(self, tape: _CharagramTape, gradient: torch.Tensor) -> Gradients:
        """See `Network.backward`."""
        if self.activation == "tanh":
            gradient = gradient * (1 - tape.states * tape.states)
        filled = torch.from_numpy(tape.pieces.lengths > 0).to(gradient.device)
        return Gradients({"ngrams": row_gradient(tape.pieces, gradient)}, {BIAS: gradient[filled].sum(0)})

    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """See `Network.vectors`."""
        with torch.inference_mode():
            return self.forward(units)[0].cpu().numpy()

    def settings(self) -> dict[str, Any]:
        """See `Network.settings`."""
        return {"kind": self.kind, "activation": self.activation}


def fresh_average(settings: NetworkSettings, sizes: Sequence[int], init: float, generator: torch.Generator) -> Network:
    """An untrained averaging or CHARAGRAM network.

    `sizes`: rows of each unit's table. Vectors are uniform in (-init, init); the projection starts
    as the identity (its leading part where it is not square), the bias as zero.
    """
    tables: dict[str, torch.Tensor] = {
        str(name): uniform((size, settings.dim), init, generator)
        for name, size in zip(settings.tokens, sizes, strict=True)
    }
    if settings.kind == "charagram":
        return CharagramNetwork(tables["ngrams"], torch.zeros(settings.dim), settings.activation)
    network = AverageNetwork(tables, settings.combine)
    if settings.projection is None:
        return network
    return AverageNetwork(tables, settings.combine, torch.eye(settings.projection, network.dim))


def uniform(shape: tuple[int, ...], width: float, generator: torch.Generator) -> torch.Tensor:
    """Float32, uniform in (-width, width)."""
    return torch.rand(shape, generator=generator).mul_(2 * width).sub_(width)


def _shares(pieces: Tokens, device: torch.device) -> torch.Tensor:
    counts = np.maximum(pieces.lengths, 1).astype(np.float32)
    return torch.from_numpy(np.reciprocal(counts)[:, None]).to(device)


def _on(pieces: Tokens, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return index_tensor(pieces.ids, table), index_tensor(pieces.offsets, table)


def index_tensor(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """`values` as an int64 tensor on the device of `like`."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(like.device)
