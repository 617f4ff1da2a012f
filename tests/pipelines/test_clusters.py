import json
import sys

import pyarrow.parquet as pq
import pytest
import yaml

from mining import load_encoder, mine
from pipelines.mine import run_mine
from tests.pipelines.conftest import config, contents
from tests.pipelines.test_resume import done, kill_when, redone

#: Three clusters a row out of many, in several groups, so that some neighbours are missed.
SETTINGS = {"search__method": "clusters", "search__nlist": 24, "search__nprobe": 3}


@pytest.fixture
def several_groups(monkeypatch):
    monkeypatch.setattr("mining.search.cluster_join.GROUP_ROWS", 200)


@pytest.fixture
def clustered(run, several_groups):
    return run("clustered", shard__rows=10_000, **SETTINGS)


@pytest.mark.parametrize(
    "changes", [{"shard__rows": 32}, {"shard__rows": 100, "runner__workers": 2}, {"runner__threads": 2}]
)
def test_shards_workers_and_threads_never_show(clustered, run, finished, changes):
    assert contents(run("other", **SETTINGS, **changes).folder) == contents(clustered.folder)
    assert contents(clustered.folder) != contents(finished.folder)
    assert clustered.metrics["bucc"]["f1"] > finished.metrics["bucc"]["f1"] - 0.1


def test_blocks_of_vectors_never_show(clustered, run, monkeypatch):
    monkeypatch.setattr("pipelines.transforms.clusters._BLOCK", 7)
    assert contents(run("blocks", **SETTINGS, shard__rows=100).folder) == contents(clustered.folder)


def test_library_gives_the_same_pairs(run, task, tiny_model, several_groups):
    result = run(threshold="none", with_gold=False, shard__rows=60, **SETTINGS)
    sides = [[text for _, text in rows] for rows in (task.source_rows, task.target_rows)]
    ids = [[row_id for row_id, _ in rows] for rows in (task.source_rows, task.target_rows)]
    pairs = mine(
        *sides,
        load_encoder(tiny_model),
        source_ids=ids[0],
        target_ids=ids[1],
        method="clusters",
        nlist=24,
        nprobe=3,
        threads=2,
    )
    assert pq.read_table(result.folder / "pairs.parquet").equals(pairs)


def test_a_row_in_every_cluster_has_all_its_neighbours(run, finished):
    result = run("all", search__method="clusters", search__nlist=3, search__nprobe=3)
    assert contents(result.folder) == contents(finished.folder)


def test_report_tells_the_choice(clustered, finished):
    report = json.loads((clustered.folder / "report.json").read_text())
    assert report["search"]["method"] == "clusters"
    assert report["search"]["why"] == "as configured"
    assert {"clusters", "assign", "join", "merge"} <= {stage["stage"] for stage in report["stages"]}
    joins = next(stage["steps"] for stage in report["stages"] if stage["stage"] == "join")
    assert joins > 1
    automatic = json.loads((finished.folder / "report.json").read_text())
    assert automatic["search"]["method"] == "exact"
    assert yaml.safe_load((finished.folder / "config.resolved.yaml").read_text())["search"]["method"] == "auto"


@pytest.mark.parametrize("markers", ["work/assign/*.json", "work/join/*.json"])
def test_killed_run_goes_on_and_ends_with_the_same_bytes(markers, run, task, tiny_model, tmp_path):
    plain = {"search__method": "clusters", "search__nlist": 24, "search__nprobe": 3}
    undisturbed = run("undisturbed", **plain)
    folder = tmp_path / "run"
    flags = ["--columns", "id,text", "--shard-rows", "40", "--threads", "1", "--quiet", "--gold", task.gold]
    flags += ["--method", "clusters", "--clusters", "24", "--nearest", "3"]
    sides = ["--source", task.source, "--target", task.target, "--model", tiny_model, "--output", folder]
    kill_when([sys.executable, "-m", "pipelines.cli", "mine", *map(str, [*flags, *sides])], folder, markers)
    result = run_mine(config(task, tiny_model, folder, shard__rows=40, **plain), quiet=True)
    assert contents(folder) == contents(undisturbed.folder)
    assert done(result)["clusters"][0] == 0
    assert done(result)["encode"][0] == 0


def test_changed_settings_redo_what_depends_on_them(run):
    run(**SETTINGS)
    assert redone(run(**SETTINGS)) == set()
    assert redone(run(**SETTINGS, runner__threads=2, search__device="cpu")) == set()
    changed = redone(run(**{**SETTINGS, "search__k": 3}))
    assert {"join", "merge", "score"} <= changed
    assert {"clusters", "assign"}.isdisjoint(changed)


def test_faiss_proposes_as_many_more_as_it_is_told(run):
    index = {"search__method": "faiss", "search__index": "PQ4x4fs"}
    few, many = run("few", search__refine_factor=1, **index), run("many", search__refine_factor=51, **index)
    assert contents(few.folder) != contents(many.folder)
