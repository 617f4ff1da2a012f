"""Networks: how a sentence vector is made from the ids of its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mining.config.network import NetworkSettings
from mining.encoder.networks.average import (
    BIAS,
    PROJECTION,
    AverageNetwork,
    CharagramNetwork,
    fresh_average,
)
from mining.encoder.networks.base import Gradients, Network
from mining.encoder.networks.lstm import LstmNetwork, fresh_lstm
from mining.shown import quoted

__all__ = [
    "AverageNetwork",
    "CharagramNetwork",
    "Gradients",
    "LstmNetwork",
    "Network",
    "NetworkSettings",
    "build_network",
    "fresh_network",
]

_CHOICES = {"average": {"combine": ("sum", "concatenate")}, "charagram": {"activation": ("tanh", "linear")}}


def build_network(settings: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Network:
    """The network that `settings` (from ``Network.settings``) and the saved `tensors` describe.

    Raises ValueError with the reason when they do not fit.
    """
    kind = settings.get("kind")
    for key, known in _CHOICES.get(str(kind), {}).items():
        if settings.get(key) not in known:
            raise ValueError(f"{key} is {quoted(settings.get(key))}, not {' or '.join(known)}")
    try:
        if kind == "average":
            tables = {name: tensors[name] for name in tensors if name != PROJECTION}
            return AverageNetwork(tables, settings["combine"], tensors.get(PROJECTION))
        if kind == "charagram":
            return CharagramNetwork(tensors["ngrams"], tensors[BIAS], settings["activation"])
        if kind == "lstm":
            return LstmNetwork.from_tensors(settings, tensors)
    except KeyError as error:
        raise ValueError(f"a network of kind {kind} needs {error}, which is missing") from None
    raise ValueError(f"no network of kind {quoted(kind)} is known")


def fresh_network(settings: NetworkSettings, sizes: Sequence[int], init: float, seed: int) -> Network:
    """An untrained network: the random encoder, or the start of a training.

    `sizes`: rows of the table of each unit, in the order of ``settings.tokens``; for languages kept
    apart both halves.
    """
    generator = torch.Generator().manual_seed(seed)
    if settings.kind == "lstm":
        return fresh_lstm(settings, sizes, init, generator)
    return fresh_average(settings, sizes, init, generator)
