"""CHARAGRAM: the sum of the vectors of character n-grams, under an activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from mining.config.base import Flag
from mining.encoder.bags import bag_sums, bags_on, row_gradient
from mining.encoder.networks import NETWORKS, Backward, Gradients, KindSettings, Leading, Network, choice
from mining.lazy import lazy

if TYPE_CHECKING:
    import torch

    from mining.config.network import NetworkSettings
    from mining.encoder.tokens import Tokens
else:
    torch = lazy("torch")

TOKENS = "ngrams"
BIAS = "bias"
Activation = Literal["tanh", "linear"]


class CharagramSettings(KindSettings):
    """Of the encoder charagram."""

    activation: Annotated[Activation, Flag(panel="Encoder")] = "tanh"
    """Of the encoder charagram, on the sum of the vectors."""

    def check(self, network: NetworkSettings) -> None:
        """See `KindSettings.check`."""
        if network.kind == CharagramNetwork.kind and network.tokens != [TOKENS]:
            raise ValueError(f"kind: charagram works on tokens: [{TOKENS}]")


@NETWORKS.register("charagram")
class CharagramNetwork(Network):
    """The sum of the vectors of character n-grams, under an activation.

    ``activation(bias + sum of the n-gram vectors)``; Wieting et al. 2016 (thesis of 2020, chapter
    3).
    """

    kind = "charagram"
    settings = CharagramSettings
    default_tokens = (TOKENS,)

    def __init__(self, table: torch.Tensor, bias: torch.Tensor, activation: str = "tanh") -> None:
        """`table` (n-grams, dim) and `bias` (dim,) float32; raises ValueError when they do not fit
        each other."""
        if bias.shape != table.shape[1:]:
            raise ValueError(f"'{BIAS}' has shape {tuple(bias.shape)} for vectors of {table.shape[1]}")
        self.tables = {TOKENS: table}
        self.weights = {BIAS: bias}
        self.activation = activation
        self.dim: int = table.shape[1]

    @classmethod
    def fresh(
        cls, settings: NetworkSettings, tables: dict[str, torch.Tensor], generator: torch.Generator
    ) -> CharagramNetwork:
        """See `Network.fresh`. The bias starts as zero."""
        return cls(tables[TOKENS], torch.zeros(settings.dim), settings.part(CharagramSettings).activation)

    @classmethod
    def load(
        cls,
        stored: Mapping[str, object],
        tables: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor],
    ) -> CharagramNetwork:
        """See `Network.load`."""
        activation = choice(stored, "activation", get_args(Activation))
        return cls(tables[TOKENS], weights[BIAS], activation)

    def stored_settings(self) -> dict[str, object]:
        """See `Network.stored_settings`."""
        return {"kind": self.kind, "activation": self.activation}

    def forward(self, tokens: Sequence[Tokens]) -> tuple[torch.Tensor, Backward]:
        """See `Network.forward`."""
        table, (bags,) = self.tables[TOKENS], tokens
        states = bag_sums(table, *bags_on(bags, table)).add_(self.weights[BIAS])
        if self.activation == "tanh":
            states.tanh_()
        filled = torch.from_numpy(bags.lengths > 0).to(states.device)
        states[~filled] = 0.0

        def backward(gradient: torch.Tensor) -> Gradients:
            if self.activation == "tanh":
                gradient = gradient * (1 - states * states)
            return Gradients({TOKENS: row_gradient(bags, gradient)}, {BIAS: gradient[filled].sum(0)})

        return states, backward

    def leading(self, dim: int) -> Leading:
        """See `Network.leading`."""
        return Leading({TOKENS: dim}, {BIAS: self.weights[BIAS][:dim].clone()})
