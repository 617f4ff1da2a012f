from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.corpus import BitextSpec, read_rows
from mining.errors import InputError, UsageError

FIELDS = {"domain": "genre", "score": "cosine"}
TSV = {"columns": ["source", "genre", "cosine", "target"], **FIELDS}


def extras(path: str, **spec: Any) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(row.reason, row.extra) for row in read_rows(BitextSpec(path=path, **spec))]


def test_tsv(write: Callable[..., str]) -> None:
    path = write("a.tsv.gz", "a\tnews\t0.5\tb\n\tui\t\tb\nshort\n")
    found = extras(path, **TSV, on_bad_row="skip")
    assert found == [(None, ("news", "0.5")), ("blank", ("ui", "")), ("bad_row", ())]
    assert next(extra for _, extra in extras(path, **{**TSV, "domain": None}, on_bad_row="skip")) == ("0.5",)


def test_json_lines(write: Callable[..., str]) -> None:
    rows: list[dict[str, Any]] = [
        {"source": "a", "target": "b", "genre": "news", "cosine": 0.25},
        {"source": "a\ud800", "target": "b", "genre": 7, "cosine": 1},
        {"source": "a", "target": "b", "genre": "news"},
        {"source": "a", "target": "b", "genre": True, "cosine": 1},
    ]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = extras(path, **FIELDS, on_bad_row="skip", invalid_utf8="replace")
    assert found == [(None, ("news", "0.25")), (None, ("7", "1")), ("bad_row", ()), ("bad_row", ())]
    with pytest.raises(InputError, match=r"line 3: field 'cosine' is missing"):
        extras(path, **FIELDS, invalid_utf8="replace")


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {"source": ["a", "c"], "target": ["b", None], "genre": ["news", None], "cosine": [0.5, 1.0]}
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays["genre"] = arrays["genre"].dictionary_encode()
    pq.write_table(pa.table(arrays), path)
    assert extras(str(path), **FIELDS) == [(None, ("news", "0.5")), ("blank", ("", "1.0"))]
    with pytest.raises(UsageError, match="no column 'topic'"):
        extras(str(path), domain="topic")
    with pytest.raises(UsageError, match="column 'cosine' has the type double, not string"):
        extras(str(path), source="cosine", domain="genre")


def test_formats_without_columns(write: Callable[..., str]) -> None:
    write("a.txt", "a\n")
    paths = [write("a.txt", "a\n"), write("b.txt", "b\n")]
    with pytest.raises(UsageError, match=r"text has no column 'genre': leave out `domain`"):
        list(read_rows(BitextSpec(path=paths, domain="genre")))
    with pytest.raises(UsageError, match="no column 'genre' is declared"):
        list(read_rows(BitextSpec(path=write("a.tsv", "a\tb\n"), columns=["source", "target"], domain="genre")))
