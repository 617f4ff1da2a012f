"""Encoders made up for tests: vectors that are known, without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pytest


def unit(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float32 unit rows and which rows have a direction."""
    norms = np.sqrt((vectors * vectors).sum(axis=1))
    return (vectors / np.where(norms > 0, norms, 1.0)[:, None]).astype(np.float32), norms > 0


class TableEncoder:
    """Vectors by text; a text that is not in the table cannot be encoded."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table
        self.dim = len(next(iter(table.values())))
        self.hash = "table"

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.table.get(text, [0.0] * self.dim) for text in texts]
        return unit(np.array(rows, dtype=np.float64).reshape(len(texts), self.dim))


class BagEncoder:
    """The sum of random vectors of the words, in which the languages agree: ``xdog`` means
    ``dog``."""

    def __init__(self, dim: int = 24) -> None:
        self.dim = dim
        self.hash = f"bag-{dim}"
        self.config = {"languages": ["en", "de"]}

    def word(self, word: str) -> np.ndarray:
        digest = hashlib.blake2b(word.removeprefix("x").encode(), digest_size=8).digest()
        return np.random.default_rng(int.from_bytes(digest, "little")).normal(size=self.dim)

    def encode(self, texts: Sequence[str], threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rows = [np.sum([self.word(word) for word in text.split()] or [np.zeros(self.dim)], axis=0) for text in texts]
        return unit(np.array(rows, dtype=np.float64).reshape(len(texts), self.dim))


@pytest.fixture(scope="session")
def table_encoder() -> type[TableEncoder]:
    """The class of encoders that look texts up."""
    return TableEncoder


@pytest.fixture(scope="session")
def bag() -> BagEncoder:
    """An encoder that knows all words of both languages."""
    return BagEncoder()


@pytest.fixture
def bag_model(monkeypatch: pytest.MonkeyPatch, bag: BagEncoder) -> list[dict[str, object]]:
    """Any model that is named is the bag encoder; the list records how it was loaded."""
    loaded: list[dict[str, object]] = []

    def load(path: str | None, device: str = "cpu", **options: object) -> BagEncoder:
        loaded.append({"path": path, "device": device, **options})
        return bag

    monkeypatch.setattr("mining.encoder.load.load_encoder", load)
    return loaded
