import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from mining import load_encoder, mine
from mining.config.base import read_yaml, validate
from mining.config.mine import MineConfig
from mining.pairs import read_pairs_file
from mining.schemas import DROPPED_SCHEMA, PAIRS_SCHEMA
from mining.text_arrays import table_parts
from pipelines.cli.commands.mine import show_report
from tests.pipelines.conftest import contents


def test_finds_the_gold_and_says_so(finished, task):
    bucc = finished.metrics["bucc"]
    assert bucc["f1"] > 0.8
    assert bucc["threshold_from"] == "tuned"
    pairs = pq.read_table(finished.folder / "pairs.parquet")
    assert pairs.schema == PAIRS_SCHEMA
    assert len(pairs) == finished.pairs > 0
    assert min(pairs.column("score").to_pylist()) >= finished.threshold
    assert read_pairs_file(finished.folder / "pairs.tsv").equals(pairs)


def test_every_row_is_in_a_pair_or_in_the_ledger_with_its_reason(finished, task):
    dropped = pq.read_table(finished.folder / "dropped.parquet")
    pairs = pq.read_table(finished.folder / "pairs.parquet")
    assert dropped.schema == DROPPED_SCHEMA
    for side, rows in (("source", task.source_rows), ("target", task.target_rows)):
        unused = [row for row in dropped.to_pylist() if row["side"] == side]
        used = pairs.column(f"{side}_id").to_pylist()
        assert Counter([row["id"] for row in unused] + used) == Counter(row_id for row_id, _ in rows)
        facts = finished.metrics[side]
        assert facts["rows"] == len(rows)
        assert facts["in_pairs"] + sum(facts["unused"].values()) == len(rows)
        assert Counter(row["reason"] for row in unused) == Counter(facts["unused"])
    reasons = {row["id"]: row for row in dropped.to_pylist()}
    assert reasons["s-blank"]["reason"] == reasons["s-space"]["reason"] == "blank"
    assert reasons["t-blank"]["line"] == [row_id for row_id, _ in task.target_rows].index("t-blank") + 1
    copies = {"t-0000", "t-copy", "t-copy2"}
    kept = (copies - reasons.keys()) | {i for i in copies & reasons.keys() if reasons[i]["reason"] != "duplicate"}
    assert len(kept) == 1
    assert {reasons[i]["kept_id"] for i in copies - kept} == kept


@pytest.mark.parametrize(
    "changes",
    [
        {"shard__rows": 32},
        {"shard__rows": 100, "runner__workers": 2, "search__backend": "faiss"},
        {"shard__bytes": 2000, "runner__threads": 2},
        {"search__source_tile": 32, "search__target_tile": 64},
    ],
)
def test_shards_workers_threads_backends_and_tiles_never_show(finished, run, changes):
    assert contents(run(**changes).folder) == contents(finished.folder)


def test_a_full_array_of_strings_never_shows(finished, run, monkeypatch):
    parts = []
    monkeypatch.setattr("mining.text_arrays.LARGEST", 500)
    monkeypatch.setattr("pipelines.transforms.pairs._BLOCK_BYTES", 1000)
    monkeypatch.setattr("mining.pairs.table_parts", lambda table: parts.append(table_parts(table)) or parts[-1])
    assert contents(run().folder) == contents(finished.folder)
    assert max(map(len, parts)) > 1
    assert len(parts) > 3
    # Blocks of pairs gather the texts of many shards, of which an array by offsets of 32 bits holds
    # 2 GiB.
    types = [part.schema.field(name).type for block in parts for part in block for name in ("source_id", "target_id")]
    assert set(types) == {pa.large_string()}


def test_buckets_and_blocks_never_show(finished, run, monkeypatch):
    monkeypatch.setattr("pipelines.transforms.duplicates.BUCKET_ROWS", 40)
    for name, size in (("pairs._BLOCK", 7), ("pairs._CANDIDATES", 20), ("encode._BLOCK", 9)):
        monkeypatch.setattr(f"pipelines.transforms.{name}", size)
    result = run(shard__rows=60)
    assert contents(result.folder) == contents(finished.folder)
    buckets = next(row.steps for row in result.report if row.stage == "dedup")
    assert buckets == 12


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
def test_library_and_pipeline_give_the_same_pairs(run, task, tiny_model, margin):
    sides = [[text for _, text in rows] for rows in (task.source_rows, task.target_rows)]
    ids = [[row_id for row_id, _ in rows] for rows in (task.source_rows, task.target_rows)]
    encoder = load_encoder(tiny_model)
    for strategy in ("max", "intersection", "forward", "backward"):
        result = run(margin=margin, strategy=strategy, threshold="none", with_gold=False)
        pairs = mine(*sides, encoder, 4, margin, strategy, source_ids=ids[0], target_ids=ids[1])
        assert pq.read_table(result.folder / "pairs.parquet").equals(pairs)


def test_threshold_none_given_and_tuned_nest(run, finished):
    everything = pq.read_table(run("all", threshold="none").folder / "pairs.parquet")
    tuned = pq.read_table(finished.folder / "pairs.parquet")
    assert everything.slice(0, len(tuned)).equals(tuned)
    given = run("given", threshold=everything.column("score")[4].as_py())
    assert given.pairs == 5
    assert given.metrics["bucc"]["threshold_from"] == "given"


def test_faiss_indexes_that_probe_everything_equal_exact_search(finished, run):
    index = {"search__method": "faiss", "search__index": "IVF4,Flat", "search__parameters": "nprobe=4"}
    assert contents(run("faiss", **index).folder) == contents(finished.folder)


def test_faiss_result_does_not_depend_on_shards(run):
    index = {"search__method": "faiss", "search__index": "IVF8,Flat", "search__parameters": "nprobe=2"}
    one, many = run("one", shard__rows=10_000, **index), run("many", shard__rows=60, **index)
    assert contents(one.folder) == contents(many.folder)


@pytest.mark.parametrize("index", ["Flat", "HNSW16", "PCA8,Flat", "PQ8x4fs"])
def test_every_kind_of_index_runs_by_its_name_alone(run, index):
    result = run(search__method="faiss", search__index=index)
    assert result.metrics["bucc"]["f1"] > 0.5


def test_candidates_hold_k_neighbours_of_both_directions(finished, task):
    rows = pq.read_table(finished.folder / "candidates.parquet").to_pylist()
    assert len({(row["source_id"], row["target_id"]) for row in rows}) == len(rows)
    assert all(row["forward_rank"] or row["backward_rank"] for row in rows)
    sources = Counter(row["source_id"] for row in rows if row["forward_rank"])
    targets = Counter(row["target_id"] for row in rows if row["backward_rank"])
    assert set(sources.values()) == set(targets.values()) == {4}
    pairs = pq.read_table(finished.folder / "pairs.parquet").to_pylist()
    ranks = {(row["source_id"], row["target_id"]): row for row in rows}
    for pair in pairs:
        row = ranks[pair["source_id"], pair["target_id"]]
        assert row["score"] == pair["score"]
        assert pair["rank"] == (row["backward_rank"] if pair["direction"] == "backward" else row["forward_rank"])


def test_reports_of_the_run(finished):
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert set(manifest["files"]) == {
        "pairs.parquet",
        "pairs.tsv",
        "dropped.parquet",
        "candidates.parquet",
        "metrics.json",
    }
    stages = json.loads((finished.folder / "report.json").read_text())["stages"]
    assert {"read", "encode", "search", "score", "match", "emit"} <= {stage["stage"] for stage in stages}
    assert all(stage["peak_memory"] > 0 and stage["seconds"] >= 0 for stage in stages)
    resolved = validate(MineConfig, read_yaml(finished.folder / "config.resolved.yaml"), "resolved")
    assert resolved.search.k == 4
    assert yaml.safe_load((finished.folder / "config.resolved.yaml").read_text())["threshold"] == "auto"


def test_without_gold_everything_matched_is_kept(run):
    result = run(with_gold=False)
    assert result.threshold is None
    assert "bucc" not in result.metrics
    assert result.pairs == result.metrics["matched"] > 0
    assert not (result.folder / "candidates.parquet").exists()


def test_rows_with_replaced_bytes_are_reported(run, task, tmp_path, capsys):
    path = tmp_path / "source.tsv"
    path.write_bytes(task.source.read_bytes() + b"odd\ttwo \xff bad \xff bytes\n")
    result = run(source__path=str(path), source__invalid_utf8="replace")
    assert [result.metrics[side]["replaced"] for side in ("source", "target")] == [1, 0]
    show_report(result)
    lines = [" ".join(line.split()) for line in capsys.readouterr().err.replace("\n", " ").split("target:")]
    assert "1 with U+FFFD for bytes that are no UTF-8" in lines[0]
    assert "U+FFFD" not in lines[1]
