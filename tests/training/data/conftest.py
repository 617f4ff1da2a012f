"""Made-up bitexts as rows of dictionaries, in any of the formats with columns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mining.training.data import DataConfig, PreparedPairs, prepare

Rows = Sequence[dict[str, Any]]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Writes rows to a file (.tsv, .tsv.gz, .jsonl, .parquet) and returns the BitextSpec as plain
    data."""

    def table(rows: Rows, name: str = "pairs.tsv", **spec: Any) -> dict[str, Any]:
        path, columns = tmp_path / name, list(rows[0])
        if ".tsv" in name:
            text = "".join("\t".join(str(row[column]) for column in columns) + "\n" for row in rows)
            spec["columns"] = columns
            path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        elif name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return {"path": str(path), **spec}

    return table


@pytest.fixture
def config() -> Callable[..., DataConfig]:
    """Settings of a small vocabulary over one bitext or several."""

    def config(bitext: Any, **settings: Any) -> DataConfig:
        return DataConfig.model_validate({"bitext": bitext, "vocabulary": 60, "types": 300, **settings})

    return config


@pytest.fixture
def prepared(config: Callable[..., DataConfig], tmp_path: Path) -> Callable[..., PreparedPairs]:
    """Prepares one bitext or several in a folder of the given name."""

    def prepared(bitext: Any, name: str = "prepared", **settings: Any) -> PreparedPairs:
        return prepare(config(bitext, **settings), tmp_path / name, threads=1)

    return prepared
