"""Rows of a made-up bitext."""

from __future__ import annotations

from typing import Any

import numpy as np


def made_up(count: int, seed: int = 0, **more: Any) -> list[dict[str, Any]]:
    """`count` distinct pairs; the second language spells the first backwards."""
    chance = np.random.default_rng(seed)
    words = ["".join(chance.choice(list("abcdefghij"), chance.integers(3, 8))) for _ in range(60)]
    rows = []
    for number in range(count):
        chosen = [*chance.choice(words, chance.integers(3, 9)).tolist(), f"n{number}"]
        target = " ".join(f"{word[::-1]}o" for word in chosen)
        rows.append({"source": " ".join(chosen), "target": target, **more})
    return rows
