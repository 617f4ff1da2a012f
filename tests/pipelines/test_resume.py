import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mining.errors import RunError, UsageError
from pipelines.mine import run_mine
from pipelines.run_folder import locked
from tests.conftest import write_task
from tests.pipelines.conftest import config, contents


def done(result) -> dict[str, tuple[int, int]]:
    """Steps done in this run and steps skipped, by stage."""
    return {row.stage: (row.steps - row.skipped, row.skipped) for row in result.report}


def redone(result) -> set[str]:
    return {stage for stage, (now, _) in done(result).items() if now}


def kill_when(command: list[str], folder: Path, markers: str) -> None:
    """Start a run, and kill it as soon as a file like `markers` is there."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(folder.glob(markers)) and process.poll() is None and time.monotonic() < deadline:
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    "markers", ["work/read/*.tmp-*", "work/read/*.json", "work/encode/*.json", "work/search/*.json", "pairs.tsv*"]
)
def test_killed_run_goes_on_and_ends_with_the_same_bytes(markers, finished, task, tiny_model, tmp_path):
    folder = tmp_path / "run"
    flags = ["--columns", "id,text", "--shard-rows", "40", "--threads", "1", "--quiet", "--gold", task.gold]
    sides = ["--source", task.source, "--target", task.target, "--model", tiny_model, "--output", folder]
    kill_when([sys.executable, "-m", "pipelines.cli", "mine", *map(str, [*flags, *sides])], folder, markers)
    assert not (folder / "manifest.json").exists() or b'"complete": false' in (folder / "manifest.json").read_bytes()
    result = run_mine(config(task, tiny_model, folder, shard__rows=40), quiet=True)
    assert contents(folder) == contents(finished.folder)
    if markers.startswith("work/search"):
        assert done(result)["encode"][0] == 0
        assert done(result)["search"][1] > 0
    assert not list(folder.glob("**/*.tmp-*"))


def test_finished_run_is_not_done_again(run):
    first = run()
    before = contents(first.folder)
    assert redone(run()) == set()
    assert contents(first.folder) == before


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({"threshold": 1.5}, {"output", "metrics"}),
        ({"margin": "distance"}, {"score", "match", "emit", "threshold", "output", "metrics"}),
        ({"strategy": "intersection"}, {"match", "emit", "threshold", "output", "metrics"}),
        ({"search__k": 3}, {"search", "merge", "score", "match", "emit", "threshold", "output", "metrics"}),
        ({"runner__threads": 2, "search__backend": "faiss"}, set()),
        ({"source__max_chars": 9000}, {"read"}),
    ],
)
def test_changed_setting_redoes_what_depends_on_it(run, changes, stages):
    run()
    assert redone(run(**changes)) == stages


def test_changed_input_redoes_its_side_only(tiny_model, tmp_path):
    task = write_task(tmp_path)
    run_mine(config(task, tiny_model, tmp_path / "run"), quiet=True)
    with open(task.target, "a", encoding="utf-8") as out:
        out.write("t-new\tsomething new\n")
    result = run_mine(config(task, tiny_model, tmp_path / "run"), quiet=True)
    assert done(result)["read"] == (1, 1)
    assert done(result)["encode"] == (1, 5)


def test_another_model_encodes_again_but_does_not_read_again(run, tiny_model, tmp_path):
    from mining.encoder import load_encoder, save_model
    from mining.encoder.networks.average import AverageNetwork

    encoder = load_encoder(tiny_model)
    other = tmp_path / "other"
    table = encoder.network.tables["pieces"].flip(1).contiguous() * 1.5
    save_model(other, AverageNetwork({"pieces": table}), encoder.tokenizers, languages=["a", "b"])
    run()
    result = run(model=other)
    assert {"read", "dedup", "shard"}.isdisjoint(redone(result))
    assert done(result)["encode"][1] == 0


@pytest.mark.parametrize(
    "pattern", ["work/encode/*.npy", "work/search/*.npy", "work/shard/*.parquet", "pairs.tsv", "work/*/*.json"]
)
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_artefact_is_made_again(run, finished, pattern, damage):
    folder = run().folder
    path = random.Random(0).choice(sorted(folder.glob(pattern)))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else content[:-3] + b"\x00" + content[-2:])
    run()
    assert contents(folder) == contents(finished.folder)


def test_second_run_in_a_folder_stops_with_a_message(run):
    folder = run().folder
    with (
        locked(folder),
        pytest.raises(RunError, match=rf"another run is working in this folder \(process {os.getpid()}"),
    ):
        run()


def test_folder_with_other_things_is_not_touched(run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="not empty and is not a run"):
        run()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]
