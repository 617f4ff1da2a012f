"""Margins: how much closer two sentences are than others near them (Artetxe and Schwenk 2019,
section 3.1).

A margin is a scalar function of three float64 numbers: the cosine of a pair, and the mean cosine of
the k nearest neighbours of either end. Each stands in a module of this package and registers itself
in `MARGINS` under the name of the module::

    @MARGINS.register("ratio")
    @compiled
    def ratio(cosine: float, own_mean: float, other_mean: float) -> float: ...

It returns NaN where it is not defined. `mining.neighbour_scores` applies it to neighbour lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mining.registry import Registry

#: Cosine, own mean, other mean (float64 each) to a score; NaN where there is none.
Margin: TypeAlias = Callable[[float, float, float], float]
MARGINS: Registry[Margin] = Registry("margin", "mining.margins")
