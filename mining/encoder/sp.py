"""The SP encoder: the mean of the vectors of a sentence's pieces (Wieting et al. 2019, section 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mining.devices import torch_threads
from mining.encoder.averaging import encode_pieces
from mining.encoder.pieces import PieceTokenizer, check_texts

BLOCK_TEXTS = 8192
"""Texts encoded at a time: beyond the result itself, memory does not grow with the number of texts."""


class SpEncoder:
    """Averages piece vectors.

    ``table`` is (vocabulary, dim) float32, one row per sentencepiece id; ``hash`` names the model; ``config`` is the
    model folder's ``config.json``. The result is the same to the last bit for any batch size and number of threads.
    """

    def __init__(
        self,
        table: torch.Tensor,
        tokenizer: PieceTokenizer,
        hash: str,
        config: dict[str, object] | None = None,
    ) -> None:
        self.table = table
        self.tokenizer = tokenizer
        self.hash = hash
        self.config = config or {}
        self.dim: int = table.shape[1]

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of `texts`.

        Returns (n, dim) float32 C-contiguous and (n,) bool validity. Unknown pieces are left out; a text of unknown
        pieces only is one unknown piece; a text without pieces is a zero row and invalid. ``threads`` 0: all cores.
        Raises TypeError for a plain ``str`` or an element that is no ``str``.
        """
        check_texts(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        valid = np.zeros(len(texts), bool)
        with torch_threads(threads), torch.inference_mode():
            for start in range(0, len(texts), BLOCK_TEXTS):
                pieces = self.tokenizer(texts[start : start + BLOCK_TEXTS], threads)
                block, ok = encode_pieces(self.table, pieces)
                vectors[start : start + len(block)] = block
                valid[start : start + len(ok)] = ok
        return vectors, valid
