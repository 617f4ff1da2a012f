"""What an encoder's network is to training and to encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from mining.encoder.tokens import Tokens


class Gradients(NamedTuple):
    """Gradients of a loss by the parameters of a network."""

    rows: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """by table: the distinct rows touched, (r,) int64 ascending, and the gradient by them, (r, d)
    float32"""
    weights: dict[str, torch.Tensor]
    """by dense parameter, in its shape"""


class Network(ABC):
    """From the units of ``n`` sentences to ``n`` vectors.

    ``tables`` are learnt row by row (a step touches the rows of its sentences only), ``weights`` as
    a whole; both are changed in place. The gradient is written out or taken from torch: training
    asks only for `forward` and `backward`.
    """

    kind: ClassVar[str]
    dim: int
    """length of a sentence vector"""
    tables: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]

    @abstractmethod
    def forward(self, units: Sequence[Tokens]) -> tuple[torch.Tensor, Any]:
        """Vectors (n, dim) float32 of the sentences, not yet of length one, and what `backward`
        needs.

        `units`: the ids of each kind of unit, all of the same ``n`` sentences. A sentence without
        ids is a zero row.
        """

    @abstractmethod
    def backward(self, tape: Any, gradient: torch.Tensor) -> Gradients:
        """Gradients by the parameters from the gradient by the vectors, (n, dim). May overwrite
        `gradient`."""

    @abstractmethod
    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """Vectors (n, dim) float32 without gradient; a row's bytes depend neither on the other rows
        nor on threads."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What `build_network` needs beside the tensors, as plain data."""

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """All parameters by name."""
        return {**self.tables, **self.weights}

    def parameters(self) -> int:
        """Number of learnt numbers."""
        return sum(tensor.numel() for tensor in self.tensors().values())

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(iter(self.tensors().values())).device
