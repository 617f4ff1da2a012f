"""Networks: how the vector of a sentence is made from the ids of its tokens.

Each module of this package is one kind of network, registered under the name of the module: its
settings, its untrained start, its loading from tensors, its vectors and its gradient. A new kind is
a new file. These modules are read for ``bitext --help`` too, so they import torch lazily.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from mining.config.base import Settings
from mining.lazy import lazy
from mining.registry import Registry
from mining.shown import listed, quoted

if TYPE_CHECKING:
    import numpy as np
    import torch

    from mining.config.network import NetworkSettings
    from mining.encoder.tokens import Tokens
else:
    torch = lazy("torch")

__all__ = ["NETWORKS", "Backward", "Gradients", "KindSettings", "Leading", "Network", "build_network", "fresh_network"]


class KindSettings(Settings):
    """The settings that a kind of network adds to `NetworkSettings`."""

    def check(self, network: NetworkSettings) -> None:
        """Raise ValueError where these settings and those of the whole network, which may be of
        another kind, do not go together."""


class Gradients(NamedTuple):
    """Gradients of a loss by the parameters of a network."""

    rows: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """by table: the distinct rows touched, (r,) int64 ascending, and the gradient by them, (r, d)
    float32"""
    weights: dict[str, torch.Tensor]
    """by dense parameter, in its shape"""


Backward = Callable[["torch.Tensor"], Gradients]
"""From the gradient by the vectors, (n, dim), which it may overwrite, to that by the parameters."""


class Leading(NamedTuple):
    """What the first numbers of a vector are made from."""

    columns: dict[str, int]
    """how many of the first columns of each table; a table that is left out is not needed"""
    weights: dict[str, torch.Tensor]


class Network(ABC):
    """From the tokens of ``n`` sentences to ``n`` vectors.

    ``tables`` are learnt row by row (a step touches the rows of its sentences only), ``weights`` as
    a whole; both are changed in place. The first line of a kind's docstring is its help.
    """

    kind: ClassVar[str]
    """name in the registry and in ``config.json``"""
    settings: ClassVar[type[KindSettings]] = KindSettings
    default_tokens: ClassVar[tuple[str, ...]] = ("pieces",)
    """kinds of tokens that it works on where none are set"""
    ordered: ClassVar[bool] = False
    """whether the order of the tokens matters"""
    dim: int
    """length of a sentence vector"""
    tables: dict[str, torch.Tensor]
    """by kind of token, (rows, d) float32"""
    weights: dict[str, torch.Tensor]

    @classmethod
    def help(cls) -> str:
        """What it is, in a few words: the first line of its docstring."""
        return (cls.__doc__ or cls.kind).split("\n", 1)[0].rstrip(".")

    @classmethod
    @abstractmethod
    def fresh(cls, settings: NetworkSettings, tables: dict[str, torch.Tensor], generator: torch.Generator) -> Network:
        """An untrained network with these random `tables`, (rows, ``settings.dim``) each."""

    @classmethod
    @abstractmethod
    def load(
        cls,
        stored: Mapping[str, object],
        tables: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor],
    ) -> Network:
        """The network of saved tensors; `stored` is what `stored_settings` gave.

        Raises ValueError when they do not fit each other, KeyError for a missing tensor.
        """

    @abstractmethod
    def stored_settings(self) -> dict[str, object]:
        """What `load` needs beside the tensors, as ``config.json`` keeps it; has ``kind``."""

    @abstractmethod
    def forward(self, tokens: Sequence[Tokens]) -> tuple[torch.Tensor, Backward]:
        """Vectors (n, dim) float32 of the sentences, not yet of length one, and their gradient.

        `tokens`: the ids of each kind of token, all of the same ``n`` sentences. A sentence without
        ids is a zero row.
        """

    def vectors(self, tokens: Sequence[Tokens]) -> np.ndarray:
        """Vectors (n, dim) float32 without gradient; the bytes of a row depend neither on the other
        rows nor on threads."""
        with torch.inference_mode():
            return self.flat().forward(tokens)[0].cpu().numpy()

    def flat(self) -> Network:
        """A network of the same vectors, its linear weights worked into the tables."""
        return self

    def leading(self, dim: int) -> Leading | None:
        """What of a `flat` network the first `dim` numbers of a vector need; None: all of it."""
        return None

    def tensors(self) -> dict[str, torch.Tensor]:
        """All parameters by name."""
        return {**self.tables, **self.weights}

    def parameters(self) -> int:
        """Number of learnt numbers."""
        return sum(tensor.numel() for tensor in self.tensors().values())

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(iter(self.tensors().values())).device


NETWORKS: Registry[type[Network]] = Registry("network", "mining.encoder.networks")


def build_network(
    stored: Mapping[str, object], tables: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]
) -> Network:
    """The network that ``Network.stored_settings`` and the saved tensors describe.

    Raises ValueError with the reason when they do not fit.
    """
    kind = stored.get("kind")
    if not isinstance(kind, str) or kind not in NETWORKS:
        raise ValueError(f"no network of kind {quoted(kind)} is known")
    try:
        network = NETWORKS[kind].load(stored, tables, weights)
    except KeyError as error:
        raise ValueError(f"a network of kind {kind} needs {error}, which is missing") from None
    spare = [name for name in (*tables, *weights) if name not in network.tensors()]
    if spare:
        raise ValueError(f"a network of kind {kind} has no {listed(spare)} besides the tables {listed(network.tables)}")
    return network


def fresh_network(settings: NetworkSettings, sizes: Sequence[int], init: float, seed: int) -> Network:
    """An untrained network: the random encoder, or the start of a training.

    `sizes`: rows of the table of each kind of token, in the order of ``settings.tokens``; for
    languages kept apart both halves. Tables are uniform in (-init, init).
    """
    generator = torch.Generator().manual_seed(seed)
    tables = {
        name: uniform((size, settings.dim), init, generator) for name, size in zip(settings.tokens, sizes, strict=True)
    }
    return NETWORKS[settings.kind].fresh(settings, tables, generator)


def uniform(shape: tuple[int, ...], width: float, generator: torch.Generator) -> torch.Tensor:
    """Float32, uniform in (-width, width)."""
    return torch.rand(shape, generator=generator).mul_(2 * width).sub_(width)


def choice(stored: Mapping[str, object], key: str, known: Sequence[str]) -> str:
    """One of the `known` values of a stored setting; raises ValueError for another."""
    value = stored.get(key)
    if value not in known:
        raise ValueError(f"{key} is {quoted(value)}, not {' or '.join(known)}")
    return str(value)
