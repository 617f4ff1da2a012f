"""What the rest of the library asks of a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Encoder(Protocol):
    """Turns sentences into unit vectors whose dot product is the cosine.

    ``dim`` is the length of a vector; ``hash`` names the model, so that vectors of two models are
    never mixed.
    """

    dim: int
    hash: str

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Encode ``n`` texts.

        Returns ``(n, dim)`` float32 C-contiguous unit rows and ``(n,)`` bool validity; an invalid
        row (a text with no piece in it) is all zeros. ``threads`` 0 uses every core. Raises
        TypeError for a plain ``str``.
        """
        ...
