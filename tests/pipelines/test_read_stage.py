"""The stage that reads: chunks and keys, against one row after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import CorpusSpec, dedup_key, list_inputs, read_rows
from mining.corpus.keys import id_keys
from mining.io.files import file_hash
from pipelines.artefacts import Outputs, Step
from pipelines.transforms import read


def run(path: Path, folder: Path, rows: int, size: int, **rules: Any) -> tuple[Step, dict[str, Any]]:
    (file,) = list_inputs(CorpusSpec(path=str(path)))
    params = {"spec": {"path": [file.name], **rules}, "name": file.name, "rows": rows, "bytes": size}
    step = Step(str(folder), "read", "source-00000", params, {file.path: file_hash(file.path)})
    outputs = Outputs(step)
    info = read.run(step, outputs)
    outputs.commit(info, {})
    return step, info


def chunks_one_by_one(path: Path, rows: int, size: int) -> list[list[Any]]:
    chunks: list[list[Any]] = [[]]
    for row in read_rows(CorpusSpec(path=str(path))):
        if chunks[-1] and (len(chunks[-1]) >= rows or sum(len(r.texts[0].encode()) for r in chunks[-1]) >= size):
            chunks.append([])
        chunks[-1].append(row)
    return [chunk for chunk in chunks if chunk]


def plain(keys: np.ndarray) -> list[tuple[bytes, int]]:
    return [(high.to_bytes(8, "big") + low.to_bytes(8, "big"), position) for high, low, position in keys.tolist()]


@pytest.mark.parametrize(("rows", "size"), [(7, 10_000), (1000, 50), (3, 11), (1, 1), (10_000, 10**9)])
def test_chunks_are_those_of_single_rows(tmp_path: Path, rows: int, size: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'ä' * (i % 9)} Satz {i % 13}\n" if i % 5 else "\n" for i in range(60)), encoding="utf-8")
    step, info = run(path, tmp_path / "run", rows, size)
    expected = chunks_one_by_one(path, rows, size)
    assert [chunk["rows"] for chunk in info["chunks"]] == [len(chunk) for chunk in expected]
    assert info["reasons"] == {"blank": 12}
    for facts, chunk in zip(info["chunks"], expected, strict=True):
        assert facts["bytes"] == sum(len(row.texts[0].encode()) for row in chunk)
        stored = pq.read_table(step.folder / f"{facts['name']}.parquet")
        assert stored.column("id").to_pylist() == [row.id for row in chunk]
        keys = np.load(step.folder / f"{facts['name']}.texts.npy")
        usable = {i: dedup_key(row.texts[0]) for i, row in enumerate(chunk) if row.reason is None}
        assert plain(keys) == sorted((key, i) for i, key in usable.items())


def test_the_limit_of_a_chunk_counts_bytes_not_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("äöü\n" * 6, encoding="utf-8")
    _, info = run(path, tmp_path / "run", 1000, 12)
    assert [(chunk["rows"], chunk["bytes"]) for chunk in info["chunks"]] == [(2, 12)] * 3


def test_rows_with_replaced_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo \xff\xff\nthree\n\xff\n")
    step, info = run(path, tmp_path / "run", 2, 1000, invalid_utf8="replace")
    assert info["replaced"] == 2
    assert pq.read_schema(step.folder / "source-00000.00000.parquet").names == ["id", "text", "file", "line", "reason"]


@given(st.lists(st.sampled_from("abcde"), max_size=40))
def test_sorted_keys_are_by_key_and_position(ids: list[str]) -> None:
    keys = id_keys(pa.array(ids, pa.string()))
    table = read.sorted_keys(keys, np.arange(len(ids)) * 3)
    expected = sorted((key.tobytes(), 3 * i) for i, key in enumerate(keys))
    assert plain(table) == expected


def test_equal_first_halves_are_settled_by_the_second() -> None:
    keys = np.zeros((6, 16), dtype=np.uint8)
    keys[:, 15] = [3, 1, 2, 1, 3, 0]
    keys[5, 0] = 9
    assert read.sorted_keys(keys, np.arange(6))["position"].tolist() == [1, 3, 2, 0, 4, 5]
