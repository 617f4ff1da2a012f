"""A model in memory: tokenizers, tables of vectors in float32, float16 or int8, and weights.

Encoding can work from tables that stay as small as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, get_args

import numpy as np
import torch

from mining.config.encode import TableType
from mining.devices import torch_threads
from mining.encoder.networks import Network, build_network
from mining.encoder.tokenizers import Tokenizer
from mining.encoder.tokens import Tokens
from mining.errors import UsageError

TABLE_TYPES: tuple[str, ...] = get_args(TableType)
SCALES = ".scales"
"""Ending of the name under which the scales of an int8 table are saved."""
_LARGEST = 127
_CHUNK_ROWS = 16_384


def check_type(dtype: str) -> None:
    """Raise UsageError unless tables can be kept as `dtype`."""
    if dtype not in TABLE_TYPES:
        raise UsageError(f"dtype '{dtype}': tables are kept as {', '.join(TABLE_TYPES)}")


class StoredTable(NamedTuple):
    """A table of (n, d) vectors as it is kept; int8 has a scale for each row."""

    values: torch.Tensor
    """(n, d) float32, float16 or int8"""
    scales: torch.Tensor | None = None
    """(n,) float32: a row is its values times its scale"""

    @property
    def dtype(self) -> str:
        """float32, float16 or int8"""
        return str(self.values.dtype).removeprefix("torch.")

    def take(self, rows: slice | torch.Tensor) -> torch.Tensor:
        """Some rows, dequantised: (r, d) float32."""
        values = self.values[rows].float()
        return values if self.scales is None else values.mul_(self.scales[rows, None])

    def part(self, rows: slice = slice(None), columns: slice = slice(None)) -> StoredTable:
        """A copy of some rows and columns."""
        scales = None if self.scales is None else self.scales[rows].clone()
        return StoredTable(self.values[rows, columns].clone(memory_format=torch.contiguous_format), scales)

    def to(self, device: torch.device) -> StoredTable:
        """The table on a device."""
        return StoredTable(self.values.to(device), None if self.scales is None else self.scales.to(device))

    def converted(self, dtype: str) -> StoredTable:
        """The table in another type, chunk by chunk; UsageError when float16 cannot hold it.

        int8 is symmetric: the scale of a row is its largest value divided by 127.
        """
        if dtype == self.dtype:
            return self
        values = torch.empty(self.values.shape, dtype=getattr(torch, dtype), device=self.values.device)
        scales = torch.empty(len(values), device=self.values.device) if dtype == "int8" else None
        for start in range(0, len(values), _CHUNK_ROWS):
            chunk = slice(start, start + _CHUNK_ROWS)
            rows = self.take(chunk)
            if scales is not None:
                scales[chunk] = rows.abs().amax(1).div_(_LARGEST)
                divisor = torch.where(scales[chunk] > 0, scales[chunk], 1.0)[:, None]
                rows = (rows / divisor).round_().clamp_(-_LARGEST, _LARGEST)
            values[chunk] = rows.to(values.dtype)
        if dtype == "float16" and not torch.isfinite(values).all():
            raise UsageError("the model has vectors too long for float16: use int8 or float32")
        return StoredTable(values, scales)

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors to be saved for a table called `name`."""
        saved = {name: self.values}
        return saved if self.scales is None else {**saved, name + SCALES: self.scales}


class StoredNetwork:
    """A network for encoding only, whose tables stay in float16 or int8.

    For each block of texts the distinct rows that it needs become float32.
    """

    def __init__(
        self,
        stored: Mapping[str, object],
        tables: Mapping[str, StoredTable],
        weights: Mapping[str, torch.Tensor],
    ) -> None:
        """`stored`, `weights` as for `build_network`; `tables` in the order of the tokenizers."""
        self.tables, self.weights, self._stored = dict(tables), dict(weights), dict(stored)
        outline = self._network({name: table.take(slice(1)) for name, table in self.tables.items()})
        self.kind, self.dim = outline.kind, outline.dim

    def _network(self, tables: Mapping[str, torch.Tensor]) -> Network:
        return build_network(self._stored, tables, self.weights)

    def vectors(self, tokens: Sequence[Tokens]) -> np.ndarray:
        """Vectors (n, dim) float32 as `Network.vectors` gives them."""
        small, renumbered = {}, []
        for (name, table), one in zip(self.tables.items(), tokens, strict=True):
            used = np.zeros(len(table.values), bool)
            used[one.ids] = True
            used[0] = True  # a table without rows is none
            rows = np.cumsum(used) - 1
            small[name] = table.take(torch.from_numpy(np.flatnonzero(used)).to(table.values.device))
            renumbered.append(Tokens(rows[one.ids].astype(np.int32), one.offsets))
        return self._network(small).vectors(renumbered)


@dataclass(frozen=True)
class Model:
    """Tokenizers and network of a model, its tables as they are kept."""

    tokenizers: Sequence[Tokenizer]
    stored: Mapping[str, object]
    """what ``Network.stored_settings`` gave"""
    tables: Mapping[str, StoredTable]
    """by kind of token, in the order of the tokenizers"""
    weights: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, network: Network, tokenizers: Sequence[Tokenizer]) -> Model:
        """The model of a network with tables in float32, on the same memory."""
        tables = {name: StoredTable(table) for name, table in network.tables.items()}
        return cls(list(tokenizers), network.stored_settings(), tables, dict(network.weights))

    @cached_property
    def outline(self) -> Network:
        """The network with the first row of each table; ValueError when the tensors do not fit."""
        first = {name: table.take(slice(1)) for name, table in self.tables.items()}
        return build_network(self.stored, first, self.weights)

    def network(self) -> Network:
        """The network with all tables in float32."""
        tables = {name: table.take(slice(None)) for name, table in self.tables.items()}
        return build_network(self.stored, tables, self.weights)

    def encoding(self) -> Network | StoredNetwork:
        """The network for encoding, with the tables as small as they are."""
        if all(table.dtype == "float32" for table in self.tables.values()):
            return build_network(self.stored, {name: one.values for name, one in self.tables.items()}, self.weights)
        return StoredNetwork(self.stored, self.tables, self.weights)

    def of_language(self, number: int) -> Model:
        """The tokenizers and rows of the first (0) or second (1) of two languages kept apart."""
        halves = {
            one.kind: table.part(slice(number * one.size, (number + 1) * one.size))
            for one, table in zip(self.tokenizers, self.tables.values(), strict=True)
        }
        return replace(self, tokenizers=[one.of_language(number) for one in self.tokenizers], tables=halves)

    def flat(self) -> Model:
        """The same vectors with linear weights worked into the tables; see `Network.flat`."""
        if self.outline.flat() is self.outline:
            return self
        with torch_threads(1), torch.inference_mode():
            return Model.of(self.network().flat(), self.tokenizers)

    def converted(self, dtype: str) -> Model:
        """The model with its tables in another type."""
        return replace(self, tables={name: table.converted(dtype) for name, table in self.tables.items()})

    def leading(self, dim: int, name: str = "this model") -> Model:
        """What is needed of the model for the first `dim` numbers of a vector.

        That is all of it for a network whose numbers depend on each other, as those of an LSTM do.
        Raises UsageError, with the `name` of the model, for another number than 1 to the dimension.
        """
        whole = self.outline.dim
        if not 1 <= dim <= whole:
            raise UsageError(f"dim {dim}: the vectors of {name} have {whole} dimensions, keep 1 to {whole}")
        flat = self.flat()
        needed = flat.outline.leading(dim) if dim < whole else None
        if needed is None:
            return self
        tables = {name: flat.tables[name].part(columns=slice(width)) for name, width in needed.columns.items()}
        tokenizers = [one for one in self.tokenizers if one.kind in tables]
        return Model(tokenizers, flat.stored, tables, needed.weights)

    def to(self, device: torch.device) -> Model:
        """The model on a device."""
        tables = {name: table.to(device) for name, table in self.tables.items()}
        return replace(self, tables=tables, weights={name: one.to(device) for name, one in self.weights.items()})
