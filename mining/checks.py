"""Arguments of callers, checked before any work is done."""

from __future__ import annotations

import math

import numpy as np

from mining.margins import MARGINS
from mining.matching import check_strategy


def check_threshold(threshold: float | None) -> None:
    """Raise ValueError for a threshold that is no finite number; None stands for none."""
    if threshold is not None and (
        not isinstance(threshold, int | float | np.integer | np.floating)
        or isinstance(threshold, bool)
        or not math.isfinite(threshold)
    ):
        raise ValueError(f"threshold = {threshold!r}: give a finite number, or None to keep all pairs")


def check_count(name: str, count: int) -> int:
    """`count` as a Python int; raises ValueError for one that is no whole number above 0."""
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name} = {count!r}: give a whole number, 1 or more")
    return int(count)


def check_names(margin: str, strategy: str) -> None:
    """Raise ValueError for an unknown margin or strategy."""
    MARGINS.check(margin)
    check_strategy(strategy)
