"""Tables of vectors in float32, float16 or int8, and encoding from tables that stay as small as
they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch

from mining.config.encode import TableType
from mining.encoder.networks import build_network
from mining.encoder.tokens import Tokens
from mining.errors import UsageError

TABLE_TYPES: tuple[str, ...] = get_args(TableType)
SCALES = ".scales"
"""Ending of the name under which the scales of an int8 table are saved."""
_LARGEST = 127
_CHUNK_ROWS = 16_384


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
        """Rows as they stand for: (r, d) float32."""
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

        int8 is symmetric: a row's scale is its largest value divided by 127.
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


def check_type(dtype: str) -> None:
    """Raise UsageError unless tables can be kept as `dtype`."""
    if dtype not in TABLE_TYPES:
        raise UsageError(f"dtype '{dtype}': tables are kept as {', '.join(TABLE_TYPES)}")


class StoredNetwork:
    """A network for encoding only, whose tables stay in float16 or int8.

    For each block of texts the distinct rows that it needs become float32.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        tables: Mapping[str, StoredTable],
        weights: Mapping[str, torch.Tensor],
        dim: int,
    ) -> None:
        """`settings` and `weights` as for `build_network`; `tables` in the order of the units;
        `dim` of a vector."""
        self.tables, self.weights, self.dim = dict(tables), dict(weights), dim
        self._settings = dict(settings)
        self.kind: str = settings["kind"]

    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """Vectors (n, dim) float32 as `Network.vectors` gives them."""
        small, renumbered = {}, []
        for (name, table), pieces in zip(self.tables.items(), units, strict=True):
            used = np.zeros(len(table.values), bool)
            used[pieces.ids] = True
            used[0] = True  # a table without rows is none
            places = np.cumsum(used) - 1
            small[name] = table.take(torch.from_numpy(np.flatnonzero(used)).to(table.values.device))
            renumbered.append(Tokens(places[pieces.ids].astype(np.int32), pieces.offsets))
        return build_network(self._settings, {**small, **self.weights}).vectors(renumbered)
