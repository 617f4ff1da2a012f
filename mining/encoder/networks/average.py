"""Averaging: the mean of the vectors of the tokens of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from mining.config.base import Flag
from mining.encoder.bags import bag_sums, bags_on, row_gradient
from mining.encoder.networks import NETWORKS, Backward, Gradients, KindSettings, Leading, Network, choice
from mining.lazy import lazy
from mining.shown import short

if TYPE_CHECKING:
    import torch

    from mining.config.network import NetworkSettings
    from mining.encoder.tokens import Tokens
else:
    torch = lazy("torch")

PROJECTION = "projection"
Combine = Literal["sum", "concatenate"]


class AverageSettings(KindSettings):
    """Of the encoder average."""

    combine: Annotated[Combine, Flag(panel="Encoder")] = "sum"
    """Of the averages of several kinds of tokens, by the encoder average."""
    projection: int | None = Field(default=None, ge=1)
    """Length of the sentence vector after a learnt linear map of the average; without it no map."""

    def check(self, network: NetworkSettings) -> None:
        """See `KindSettings.check`."""
        if self.projection is not None and network.kind != AverageNetwork.kind:
            raise ValueError("a projection belongs to kind: average")


@NETWORKS.register("average")
class AverageNetwork(Network):
    """The mean of the tokens' vectors.

    The means of several kinds of tokens are added up or concatenated, then optionally mapped
    linearly. Wieting et al. 2019, section 2 (SP, WORD, TRIGRAM); the map after averaging is that of
    PARAGRAM-PHRASE (thesis of 2020, chapter 3).
    """

    kind = "average"
    settings = AverageSettings

    def __init__(
        self, tables: Mapping[str, torch.Tensor], combine: str = "sum", projection: torch.Tensor | None = None
    ) -> None:
        """`tables` by kind of token, (rows, d) float32; `projection` (dim, width).

        Raises ValueError when the shapes do not fit each other.
        """
        self.tables = dict(tables)
        self.combine = combine
        self.weights = {} if projection is None else {PROJECTION: projection}
        for name, table in self.tables.items():
            if table.ndim != 2:
                raise ValueError(f"'{short(name)}' has shape {tuple(table.shape)}, not that of a table")
        widths = [table.shape[1] for table in self.tables.values()]
        if combine == "sum" and len(set(widths)) > 1:
            raise ValueError(f"tables of {' and '.join(map(str, widths))} columns cannot be added up")
        starts = np.cumsum([0, *widths[:-1]]).tolist() if combine == "concatenate" else [0] * len(widths)
        self._columns = [slice(start, start + width) for start, width in zip(starts, widths, strict=True)]
        width = self._columns[-1].stop
        if projection is not None and (projection.ndim != 2 or projection.shape[1] != width):
            raise ValueError(f"'{PROJECTION}' has shape {tuple(projection.shape)} for vectors of {width}")
        self.dim: int = width if projection is None else projection.shape[0]

    @classmethod
    def fresh(
        cls, settings: NetworkSettings, tables: dict[str, torch.Tensor], generator: torch.Generator
    ) -> AverageNetwork:
        """See `Network.fresh`. The projection starts as the identity, or its leading part."""
        own = settings.part(AverageSettings)
        network = cls(tables, own.combine)
        if own.projection is None:
            return network
        return cls(tables, own.combine, torch.eye(own.projection, network.dim))

    @classmethod
    def load(
        cls,
        stored: Mapping[str, object],
        tables: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor],
    ) -> AverageNetwork:
        """See `Network.load`."""
        return cls(tables, choice(stored, "combine", get_args(Combine)), weights.get(PROJECTION))

    def stored_settings(self) -> dict[str, object]:
        """See `Network.stored_settings`."""
        return {"kind": self.kind, "combine": self.combine}

    def forward(self, tokens: Sequence[Tokens]) -> tuple[torch.Tensor, Backward]:
        """See `Network.forward`."""
        shares = [_shares(one, self.device) for one in tokens]
        means = [
            bag_sums(table, *bags_on(one, table)).mul_(share)
            for table, one, share in zip(self.tables.values(), tokens, shares, strict=True)
        ]
        joined = self._join(means)
        projection = self.weights.get(PROJECTION)

        def backward(gradient: torch.Tensor) -> Gradients:
            weights = {}
            if projection is not None:
                weights[PROJECTION] = gradient.T @ joined
                gradient = gradient @ projection
            rows = {
                name: row_gradient(one, gradient[:, columns] * share)
                for name, one, share, columns in zip(self.tables, tokens, shares, self._columns, strict=True)
            }
            return Gradients(rows, weights)

        return joined if projection is None else joined @ projection.T, backward

    def _join(self, means: list[torch.Tensor]) -> torch.Tensor:
        if self.combine == "concatenate":
            return torch.cat(means, dim=1)
        total = means[0]
        for other in means[1:]:
            total.add_(other)
        return total

    def flat(self) -> AverageNetwork:
        """See `Network.flat`: each table is mapped row by row, in float64, and the means are added
        up."""
        if PROJECTION not in self.weights:
            return self
        matrix = self.weights[PROJECTION].double()
        return AverageNetwork(
            {
                name: (table.double() @ matrix[:, columns].T).float()
                for (name, table), columns in zip(self.tables.items(), self._columns, strict=True)
            }
        )

    def leading(self, dim: int) -> Leading:
        """See `Network.leading`."""
        columns = {
            name: min(columns.stop, dim) - columns.start
            for name, columns in zip(self.tables, self._columns, strict=True)
            if columns.start < dim
        }
        return Leading(columns, {})


def _shares(tokens: Tokens, device: torch.device) -> torch.Tensor:
    """(n, 1) float32: one divided by the number of ids."""
    counts = np.maximum(tokens.lengths, 1).astype(np.float32)
    return torch.from_numpy(np.reciprocal(counts)[:, None]).to(device)
