"""Ids that stand twice, and ids of which only the keys are equal."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.errors import InputError
from pipelines.transforms import duplicates


@pytest.mark.parametrize(("other", "twice"), [("a", True), ("b", False)])
def test_ids_of_one_key_are_compared(other: str, twice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"id": ["a", other], "file": ["f", "f"], "line": [1, 2]}), tmp_path / "chunk.parquet")
    chunks = SimpleNamespace(read=lambda: SimpleNamespace(paths=[str(tmp_path / "chunk.parquet")]))
    inputs: Any = SimpleNamespace(ids=None, chunks=chunks)
    found = np.zeros((2, 16), np.uint8), np.zeros(2, np.int64), np.arange(2)
    monkeypatch.setattr(duplicates, "_bucket", lambda keys, params: found)
    with pytest.raises(InputError, match=r"f, line 2 .* first at f, line 1") if twice else contextlib.nullcontext():
        duplicates._check_ids(inputs, duplicates.DedupParams("source", 0, 1))
