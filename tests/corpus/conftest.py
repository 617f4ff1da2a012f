from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from mining.corpus import BitextSpec, CorpusSpec, Row, read_rows

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of that name, compressed if its extension says so, and returns its path."""

    def write(name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(COMPRESS.get(path.suffix, bytes)(data))
        return str(path)

    return write


@pytest.fixture
def read() -> Callable[..., list[Row]]:
    """All rows of a corpus, or of a bitext if `source` or `bitext` is given."""

    def read(path: Any, bitext: bool = False, **settings: Any) -> list[Row]:
        kind = BitextSpec if bitext or "source" in settings else CorpusSpec
        return list(read_rows(kind(path=path, **settings)))

    return read


@pytest.fixture
def texts(read: Callable[..., list[Row]]) -> Callable[..., list[str]]:
    """The first text of every row."""

    def texts(path: Any, **settings: Any) -> list[str]:
        return [row.texts[0] for row in read(path, **settings)]

    return texts


@pytest.fixture
def compress() -> Callable[[str, bytes], bytes]:
    """Compresses bytes as a file with that extension holds them."""
    return lambda extension, data: COMPRESS[extension](data)
