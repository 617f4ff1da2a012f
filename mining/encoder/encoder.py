"""The sentence encoder: units, a network over their vectors, and rows of length one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from mining.devices import torch_threads
from mining.encoder.averaging import unit_rows
from mining.encoder.by_words import encode_by_words, piece_table
from mining.encoder.tokenizers import Tokenizer
from mining.encoder.tokenizers.pieces import PieceTokenizer
from mining.encoder.tokens import Tokens, check_texts
from mining.encoder.word_cache import WORD_MEMORY, WordPieces, WordStatistics, word_pieces
from mining.encoder.word_cache.texts import Texts, check_arrow, is_arrow, strings

BLOCK_TEXTS = 8192
"""Texts encoded at a time: beyond the result itself, memory does not grow with the number of
texts."""


class Vectoriser(Protocol):
    """The part of a network that encoding needs: `Network`, or `StoredNetwork` with its small
    tables."""

    dim: int

    def vectors(self, units: Sequence[Tokens]) -> np.ndarray:
        """(n, dim) float32 from the ids of each unit; a row's bytes do not depend on the other
        rows."""
        ...


class SentenceEncoder:
    """Cuts texts into units, looks up and combines their vectors, and brings them to length one.

    ``units`` and ``network`` are the parts; ``hash`` names the model; ``config`` is the model
    folder's ``config.json``. The result is the same to the last bit for any batch size and number
    of threads.

    A model that averages pieces is applied word by word, much faster, when that is proved to be
    right for its sentencepiece model (see `words`). `plain` says why it is not, or is None.
    """

    def __init__(
        self,
        network: Vectoriser,
        units: Sequence[Tokenizer],
        hash: str,
        config: Mapping[str, Any] | None = None,
        *,
        dim: int | None = None,
        word_memory: int = WORD_MEMORY,
    ) -> None:
        """`dim`: keep only so many of the first dimensions; `word_memory`: bytes for the words
        already segmented."""
        self.network = network
        self.tokenizers = list(units)
        self.hash = hash
        self.config = dict(config or {})
        self.dim = network.dim if dim is None else dim
        self._word_memory = word_memory

    @property
    def plain(self) -> str | None:
        """Why this model is not applied word by word; None when it is."""
        return self._words if isinstance(self._words, str) else None

    @property
    def statistics(self) -> WordStatistics | None:
        """How often words were already known; None for a model that is not applied word by word."""
        return None if isinstance(self._words, str) else self._words.statistics

    @cached_property
    def _words(self) -> WordPieces | str:
        if piece_table(self.network) is None or len(self.tokenizers) != 1:
            return "it does more than average pieces"
        (unit,) = self.tokenizers
        if not isinstance(unit, PieceTokenizer):
            return "its pieces are not sentencepiece's"
        return word_pieces(unit, self._word_memory)

    def encode(self, texts: Texts, threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of `texts`, a sequence of ``str`` or an Arrow array of strings.

        Returns (n, dim) float32 C-contiguous and (n,) bool validity. Unknown units are left out; a
        text of unknown units only is one unknown unit; a text for which no kind of unit has any is
        a zero row and invalid. ``threads`` 0: all cores. Raises TypeError for a plain ``str`` or an
        element that is no ``str``.
        """
        if is_arrow(texts):
            check_arrow(texts)
        else:
            check_texts(texts)
        vectors = np.empty((len(texts), self.dim), np.float32)
        valid = np.empty(len(texts), bool)
        words, table = self._words, piece_table(self.network)
        with torch_threads(threads), torch.inference_mode():
            if table is not None and not isinstance(words, str):
                encode_by_words(texts, words, table, threads, vectors, valid)
                return vectors, valid
            for start in range(0, len(texts), BLOCK_TEXTS):
                block = slice(start, min(start + BLOCK_TEXTS, len(texts)))
                vectors[block], valid[block] = self._block(strings(texts[block]), threads)
        return vectors, valid

    def _block(self, texts: Sequence[str], threads: int) -> tuple[np.ndarray, np.ndarray]:
        units = [unit(texts, threads) for unit in self.tokenizers]
        filled = np.any([pieces.lengths > 0 for pieces in units], axis=0)
        rows, valid = unit_rows(self.network.vectors(units)[:, : self.dim])
        rows[~filled] = 0.0
        return rows, valid & filled
