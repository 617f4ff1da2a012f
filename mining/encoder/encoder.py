"""The sentence encoder: units, a network over their vectors, and rows of length one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from mining.devices import torch_threads
from mining.encoder.averaging import unit_rows
from mining.encoder.pieces import Pieces, check_texts
from mining.encoder.units import Unit

BLOCK_TEXTS = 8192
"""Texts encoded at a time: beyond the result itself, memory does not grow with the number of texts."""


class Vectoriser(Protocol):
    """The part of a network that encoding needs: `Network`, or `StoredNetwork` with its small tables."""

    dim: int

    def vectors(self, units: Sequence[Pieces]) -> np.ndarray:
        """(n, dim) float32 from the ids of each unit; a row's bytes do not depend on the other rows."""
        ...


class SentenceEncoder:
    """Cuts texts into units, looks up and combines their vectors, and brings them to length one.

    ``units`` and ``network`` are the parts; ``hash`` names the model; ``config`` is the model folder's ``config.json``.
    The result is the same to the last bit for any batch size and number of threads.
    """

    def __init__(
        self,
        network: Vectoriser,
        units: Sequence[Unit],
        hash: str,
        config: Mapping[str, Any] | None = None,
        *,
        dim: int | None = None,
    ) -> None:
        """`dim`: keep only so many of the first dimensions."""
        self.network = network
        self.units = list(units)
        self.hash = hash
        self.config = dict(config or {})
        self.dim = network.dim if dim is None else dim

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of `texts`.

        Returns (n, dim) float32 C-contiguous and (n,) bool validity. Unknown units are left out; a text of unknown
        units only is one unknown unit; a text for which no kind of unit has any is a zero row and invalid. ``threads``
        0: all cores. Raises TypeError for a plain ``str`` or an element that is no ``str``.
        """
        check_texts(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        valid = np.zeros(len(texts), bool)
        with torch_threads(threads), torch.inference_mode():
            for start in range(0, len(texts), BLOCK_TEXTS):
                block = slice(start, min(start + BLOCK_TEXTS, len(texts)))
                vectors[block], valid[block] = self._block(texts[block], threads)
        return vectors, valid

    def _block(self, texts: Sequence[str], threads: int) -> tuple[np.ndarray, np.ndarray]:
        units = [unit(texts, threads) for unit in self.units]
        filled = np.any([pieces.lengths > 0 for pieces in units], axis=0)
        rows, valid = unit_rows(self.network.vectors(units)[:, : self.dim])
        rows[~filled] = 0.0
        return rows, valid & filled
