"""Stages by themselves: what is read in chunks and keys, against one row after the other, and what
scoring reports beside the best candidates; and how work is divided into steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.config.mine import MineConfig
from mining.corpus import CorpusSpec, list_inputs, read_rows
from mining.corpus.dedup import id_keys, text_keys
from mining.io.files import file_hash
from pipelines.engine import Context, Engine
from pipelines.inputs import RunInputs
from pipelines.progress import Progress
from pipelines.records import Artefact, located, write_list
from pipelines.steps import Cost, Outputs
from pipelines.transforms.corpus import Chunk, ReadParams, ReadReport, ReadSide, read, sorted_keys
from pipelines.transforms.duplicates import DedupParams, DedupReport, ShardInputs, plan_dedup, plan_shard
from pipelines.transforms.neighbours import NEIGHBOUR
from pipelines.transforms.pairs import ScoreInputs, ScoreParams, score


def run(path: Path, folder: Path, rows: int, size: int, **rules: Any) -> ReadReport:
    (file,) = list_inputs(CorpusSpec(path=str(path)))
    inputs = Artefact(file.path, file_hash(file.path), 0)
    params = ReadParams(CorpusSpec(path=[file.name], **rules), file.name, rows, size, threads=1)
    outputs = Outputs(read.step(folder, "source-00000", inputs, params))
    report = read.run(inputs, params, outputs)
    outputs.commit(report, Cost(0.0, 0.0, 0, ""))
    return located(report, str(folder))


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
    report = run(path, tmp_path / "run", rows, size)
    expected = chunks_one_by_one(path, rows, size)
    assert [chunk.rows for chunk in report.chunks] == [len(chunk) for chunk in expected]
    assert report.reasons == {"blank": 12}
    for found, chunk in zip(report.chunks, expected, strict=True):
        assert found.bytes == sum(len(row.texts[0].encode()) for row in chunk)
        stored = pq.read_table(found.table.path)
        assert stored.column("id").to_pylist() == [row.id for row in chunk]
        keys = np.load(found.texts.path)
        usable = {i: text_keys(pa.array([row.texts[0]]))[0].tobytes() for i, row in enumerate(chunk) if not row.reason}
        assert plain(keys) == sorted((key, i) for i, key in usable.items())


def test_the_limit_of_a_chunk_counts_bytes_not_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("äöü\n" * 6, encoding="utf-8")
    report = run(path, tmp_path / "run", 1000, 12)
    assert [(chunk.rows, chunk.bytes) for chunk in report.chunks] == [(2, 12)] * 3


def test_rows_with_replaced_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo \xff\xff\nthree\n\xff\n")
    report = run(path, tmp_path / "run", 2, 1000, invalid_utf8="replace")
    assert report.replaced == 2
    assert pq.read_schema(tmp_path / "run" / "work" / "read" / "source-00000.00000.parquet").names == [
        "id",
        "text",
        "file",
        "line",
        "reason",
    ]


@given(st.lists(st.sampled_from("abcde"), max_size=40))
def test_sorted_keys_are_by_key_and_position(ids: list[str]) -> None:
    keys = id_keys(pa.array(ids, pa.string()))
    table = sorted_keys(keys, np.arange(len(ids)) * 3)
    expected = sorted((key.tobytes(), 3 * i) for i, key in enumerate(keys))
    assert plain(table) == expected


def test_equal_first_halves_are_settled_by_the_second() -> None:
    keys = np.zeros((6, 16), dtype=np.uint8)
    keys[:, 15] = [3, 1, 2, 1, 3, 0]
    keys[5, 0] = 9
    assert sorted_keys(keys, np.arange(6))["position"].tolist() == [1, 3, 2, 0, 4, 5]


@pytest.mark.parametrize(("margin", "floored"), [("ratio", 1), ("distance", 0), ("absolute", 0)])
def test_floored_denominators_are_counted_for_ratios_only(tmp_path: Path, margin: str, floored: int) -> None:
    lists = np.array([[(0, 0.5)], [(1, 0.5)], [(-1, -np.inf)]], dtype=NEIGHBOUR)
    np.save(tmp_path / "own.lists.npy", lists)
    np.save(tmp_path / "own.means.npy", np.array([0.0005, 0.9, 0.0]))
    np.save(tmp_path / "other.means.npy", np.array([0.0005, 0.9]))
    files = [Artefact(f"{name}.npy", "", 0) for name in ("own.lists", "own.means", "other.means")]
    inputs = located(ScoreInputs(*files[:2], write_list(tmp_path, files[2:], [2])), str(tmp_path))
    params = ScoreParams(margin=margin, k=1, side="source", first=0, rows=3, threads=1)
    report = score.run(inputs, params, Outputs(score.step(tmp_path, "source-00000", inputs, params)))
    assert (report.candidates, report.undefined) == (2, floored)


def context(folder: Path) -> Context:
    settings = {"source": "x", "target": "x", "output": "x", "shard": {"rows": 100, "bytes": 1000}}
    config = MineConfig.model_validate(settings)
    engine = Engine(config.runner, Progress(quiet=True))
    return Context(config, folder, RunInputs.__new__(RunInputs), engine)


def test_chunks_fill_shards_up_to_their_limits(tmp_path: Path) -> None:
    def groups(chunks: list[tuple[int, int]], duplicates: list[list[int]]) -> list[int]:
        file = Artefact("", "", 1)
        found = [
            Chunk(Artefact(f"{number}.parquet", "", 1), file, file, usable, usable, size)
            for number, (usable, size) in enumerate(chunks)
        ]
        side = ReadSide("source", [ReadReport(found, {}, 0)])
        steps = plan_shard(context(tmp_path), side, [DedupReport(file, counts) for counts in duplicates])
        inputs = [located(step.inputs, str(tmp_path)) for step in steps]
        paths = [each.chunks.read().paths for each in inputs if isinstance(each, ShardInputs)]
        assert [Path(path).name for each in paths for path in each] == [chunk.table.path for chunk in found]
        firsts = [sum(map(len, paths[:number])) for number in range(len(paths))]
        assert [step.params for step in steps] == firsts
        return [len(each) for each in paths]

    assert groups([(60, 1), (40, 1), (1, 1)], [[0, 0, 0]]) == [2, 1]
    assert groups([(60, 1), (41, 1), (1, 1)], [[0, 0, 0]]) == [1, 2]
    # Duplicates, of all buckets, are not kept.
    assert groups([(60, 1), (43, 1), (1, 1)], [[1, 0, 0], [0, 2, 0]]) == [2, 1]
    assert groups([(1, 600), (1, 400), (1, 1)], [[0, 0, 0]]) == [2, 1]
    assert groups([(1, 600), (1, 401), (1, 1)], [[0, 0, 0]]) == [1, 2]
    assert groups([(500, 5000), (0, 0)], [[0, 0]]) == [1, 1]


@pytest.mark.parametrize(("rows", "buckets"), [(0, 1), (1, 1), (4_000_000, 1), (4_000_001, 2), (8_000_001, 3)])
def test_buckets_hold_so_many_keys(tmp_path: Path, rows: int, buckets: int) -> None:
    file = Artefact("", "", 1)
    side = ReadSide("source", [ReadReport([Chunk(file, file, file, rows, rows, 1)], {}, 0)])
    steps = plan_dedup(context(tmp_path), side)
    assert [step.params for step in steps] == [DedupParams("source", bucket, buckets) for bucket in range(buckets)]
