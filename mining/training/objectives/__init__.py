"""The objectives on the vectors of a mini-batch, with their gradients.

The gradients are written out because a step is mostly memory traffic: each matrix is formed once
and worked on in place. The tests compare them with torch's automatic ones.
"""

from __future__ import annotations

from typing import Literal

from mining.training.objectives.base import Cells, LossGradient, Objective
from mining.training.objectives.j_bi import EuclideanObjective
from mining.training.objectives.margin import MarginObjective
from mining.training.objectives.normalisation import normalise, through_normalisation
from mining.training.objectives.softmax import SoftmaxObjective

ObjectiveName = Literal["margin", "softmax", "j_bi"]

__all__ = [
    "Cells",
    "EuclideanObjective",
    "LossGradient",
    "MarginObjective",
    "Objective",
    "ObjectiveName",
    "SoftmaxObjective",
    "build_objective",
    "normalise",
    "through_normalisation",
]


def build_objective(
    name: ObjectiveName, *, delta: float = 0.4, scale: float = 20.0, margin: float = 0.0, negatives: int = 0
) -> Objective:
    """The objective called `name`; it takes from the settings what it needs.

    `delta`: margin, j_bi; `scale` and `margin`: softmax; `negatives`, how many a side: softmax,
    j_bi (``margin`` takes one). ValueError when they do not fit it.
    """
    if name == "margin":
        return MarginObjective(delta)
    if name == "softmax":
        return SoftmaxObjective(scale, margin, negatives)
    if name == "j_bi":
        return EuclideanObjective(delta, negatives)
    raise ValueError(f"unknown objective {name!r}: margin, softmax or j_bi")
