"""Pairs that are too little or too much alike."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from mining.config.corpus import BitextSpec
from mining.errors import InputError
from mining.filters import FILTERS, Bounds, Filter, PairBatch

if TYPE_CHECKING:
    from mining.encoder import Encoder


@FILTERS.register("similarity")
class Similarity(Filter):
    """Drops pairs by the similarity of their sides: the column ``score`` of the bitext, or the
    cosine of their vectors."""

    cost = 10
    paths = ("similarity_model",)
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Least similarity of the sides: the column ``score`` of the bitext, or their cosine by
    ``similarity_model``."""
    max_similarity: float | None = Field(default=None, ge=-1, le=1)
    """Greatest similarity of the sides."""
    similarity_model: str | None = None
    """Model folder whose cosine is the similarity, where the bitext has no ``score``."""

    def bounds(self) -> Bounds | None:
        """From ``min_similarity`` to ``max_similarity``."""
        low, high = self.min_similarity, self.max_similarity
        if low is None and high is None:
            return None
        return -np.inf if low is None else low, np.inf if high is None else high

    def check(self, spec: BitextSpec) -> None:
        """Scores or a model are needed."""
        if spec.score is None and self.similarity_model is None:
            raise ValueError(
                "the filter by similarity needs score: COLUMN of the bitext, or similarity_model: FOLDER; null for "
                "min_similarity and max_similarity turns it off"
            )

    def inputs(self) -> dict[str, str]:
        """The hash of the model."""
        return {"similarity": _model(self.similarity_model).hash} if self.similarity_model is not None else {}

    def score(self, batch: PairBatch) -> np.ndarray:
        """The number in the column ``score``, else the cosine."""
        if batch.spec.score is not None:
            return _numbers(batch, batch.spec.score)
        return _cosines(batch, _model(str(self.similarity_model)))


@lru_cache(maxsize=1)
def _model(folder: str) -> Encoder:
    from mining.encoder import load_encoder

    return load_encoder(folder)


def _numbers(batch: PairBatch, column: str) -> np.ndarray:
    """The values of the column ``score``; NaN where they are none, if bad rows are skipped."""
    texts: list[str] = batch.table.column("score").to_pylist()
    values = np.array([_number(text) for text in texts], np.float64)
    bad = np.flatnonzero(np.isnan(values))
    if len(bad) and batch.spec.on_bad_row == "error":
        row = batch.table.slice(int(bad[0]), 1).to_pylist()[0]
        raise InputError(
            f"{row['file']}, line {row['line']}: '{row['score'][:40]}' in column '{column}' is no number: correct it, "
            "or set on_bad_row: skip"
        )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _cosines(batch: PairBatch, encoder: Encoder) -> np.ndarray:
    """Cosine of the sides; -1 where a side has no vector, rounded so that 1.0 means equal
    vectors."""
    (source, known), (target, also) = (encoder.encode(side, threads=batch.threads) for side in batch.texts)
    cosines = np.einsum("nd,nd->n", source.astype(np.float64), target.astype(np.float64))
    return np.where(known & also, cosines.round(6), -1.0)
