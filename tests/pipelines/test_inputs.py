"""Inputs, gold and model that change while a run goes on, what is said of it, and what becomes of
earlier results."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mining.config.base import read_yaml
from mining.config.mine import MineConfig
from mining.encoder import load_encoder, save_model
from mining.encoder.networks.average import AverageNetwork
from mining.errors import BitextError, RunError, UsageError
from mining.io.files import file_hash
from pipelines.engine import Engine
from pipelines.inputs import HashedFile, ModelState, RunInputs
from pipelines.mine import run_mine
from pipelines.records import Artefact
from pipelines.steps import Step
from pipelines.transforms.corpus import ReadSide
from pipelines.transforms.duplicates import Corpus
from pipelines.transforms.encode import EncodedSide, EncodeReport
from tests.conftest import Task, write_task
from tests.pipelines.conftest import config, contents
from tests.pipelines.test_resume import redone


@pytest.fixture
def own(tmp_path: Path) -> Task:
    """A task whose files a test may change."""
    return write_task(tmp_path, rows=60, aligned=30)


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def when(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    """Let something happen before a stage begins."""

    def before(stage: str, action: Callable[[], Any]) -> None:
        run, left = Engine.run, [action]

        def watched(self: Engine, steps: Sequence[Step[Any]]) -> list[Any]:
            if steps[0].stage == stage and left:
                left.pop()()
            return run(self, steps)

        monkeypatch.setattr(Engine, "run", watched)

    return before


def append(path: Path, line: str) -> Callable[[], None]:
    """An action that adds a line to a file."""

    def add() -> None:
        with open(path, "a", encoding="utf-8") as out:
            out.write(line)

    return add


def replace_model(folder: Path, factor: float = -1.0) -> None:
    """Save another model in its place."""
    encoder = load_encoder(folder)
    table = encoder.network.tables["pieces"].flip(1).contiguous() * factor
    save_model(folder, AverageNetwork({"pieces": table}), encoder.tokenizers, languages=["a", "b"])


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def test_input_that_changes_before_it_is_read_stops_the_run(
    own: Task, model: Path, tmp_path: Path, when: Callable
) -> None:
    when("read", append(own.target, "t-new\tkeda bapo\n"))
    with pytest.raises(BitextError, match=r"target\.tsv: changed while it was read: run the command again"):
        run_mine(config(own, model, tmp_path / "run"), quiet=True)
    result = run_mine(config(own, model, tmp_path / "run"), quiet=True)
    assert manifest(result.folder)["inputs"]["target"] == [{"path": str(own.target), "hash": file_hash(own.target)}]
    assert result.metrics["target"]["rows"] == len(own.target_rows) + 1


def test_input_that_changes_afterwards_is_said_and_the_manifest_has_the_hash_of_what_was_mined(
    own: Task, model: Path, tmp_path: Path, when: Callable, bitext: Callable
) -> None:
    hashes = {path: file_hash(path) for path in (own.source, own.target, own.gold)}
    when("emit", append(own.source, "s-new\tkeda bapo\n"))
    flags = ["--source", own.source, "--target", own.target, "--columns", "id,text", "--gold", own.gold]
    ended = bitext("mine", *flags, "--model", model, "--output", tmp_path / "run", "--threads", 1, "--quiet")
    assert ended.code == 0
    assert f"warning: {own.source}: has changed since the run began: the result is of what was there then" in ended.err
    facts = manifest(tmp_path / "run")
    assert facts["complete"] is True
    assert facts["inputs"]["source"] == [{"path": str(own.source), "hash": hashes[own.source]}]
    assert facts["gold"] == {"path": str(own.gold), "hash": hashes[own.gold]}
    assert facts["changed_since"] == [f"{own.source}: has changed"]


def test_change_behind_an_old_time_of_writing_is_noticed(own: Task) -> None:
    file = HashedFile.read(str(own.gold))
    facts, text = own.gold.stat(), own.gold.read_bytes()
    own.gold.write_bytes(text[:-2] + b"?\n")
    os.utime(own.gold, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert file.change() == f"{own.gold}: has changed"
    own.gold.write_bytes(text)
    assert file.change() is None


@pytest.mark.parametrize("stage", ["gold", "threshold", "metrics"])
def test_gold_that_changes_during_a_run_stops_it(
    own: Task, model: Path, tmp_path: Path, when: Callable, stage: str
) -> None:
    when(stage, append(own.gold, "s-0001\tt-0059\n"))
    with pytest.raises(BitextError, match=r"gold\.tsv: the gold file changed during the run: run the command again"):
        run_mine(config(own, model, tmp_path / "run"), quiet=True)
    assert manifest(tmp_path / "run")["complete"] is False
    result = run_mine(config(own, model, tmp_path / "run"), quiet=True)
    assert redone(result) <= {"read", "gold", "dedup", "shard", "encode", *LATER}
    assert manifest(result.folder)["gold"]["hash"] == file_hash(own.gold)
    assert manifest(result.folder)["changed_since"] == []


LATER = {"search", "merge", "score", "match", "emit", "threshold", "output", "metrics"}


def test_model_replaced_before_encoding_stops_the_run_and_mends_with_it(
    own: Task, model: Path, tmp_path: Path, when: Callable
) -> None:
    # A model that no other test has left in this process.
    replace_model(model, 1.25)
    kept = shutil.copytree(model, tmp_path / "kept")
    when("encode", lambda: replace_model(model))
    with pytest.raises(
        BitextError, match=r"model: the model has changed since this run began .*: run the command again"
    ):
        run_mine(config(own, model, tmp_path / "run"), quiet=True)
    # The same process must not go on with what it has loaded.
    shutil.copytree(kept, model, dirs_exist_ok=True)
    result = run_mine(config(own, model, tmp_path / "run"), quiet=True)
    assert contents(result.folder) == contents(run_mine(config(own, kept, tmp_path / "other"), quiet=True).folder)


def test_model_replaced_after_encoding_is_said(own: Task, model: Path, tmp_path: Path, when: Callable) -> None:
    when("search", lambda: replace_model(model))
    result = run_mine(config(own, model, tmp_path / "run", encode__dim=8), quiet=True)
    assert result.changed == [f"{model}: the model has changed"]


def test_shards_of_two_models_never_meet() -> None:
    file = Artefact("", "", 0)

    def side(*shards: tuple[str, int]) -> EncodedSide:
        reports = [EncodeReport(file, file, 1, dim, model, 1) for model, dim in shards]
        return EncodedSide(Corpus(ReadSide("source", []), [], []), reports, 4)

    side(("one", 4), ("one", 4)).check_model("one", 4)
    for other in (("two", 4), ("one", 5)):
        with pytest.raises(RunError, match="a shard of the source side was encoded by the model"):
            side(("one", 4), other).check_model("one", 4)


def test_run_compares_the_models_of_all_shards(
    own: Task, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Engine.run

    def other(self: Engine, steps: Sequence[Step[Any]]) -> list[Any]:
        reports = run(self, steps)
        if steps[0].stage == "encode":
            reports[-1] = dataclasses.replace(reports[-1], model="another")
        return reports

    monkeypatch.setattr(Engine, "run", other)
    with pytest.raises(BitextError, match="a shard of the target side was encoded by the model another"):
        run_mine(config(own, model, tmp_path / "run"), quiet=True)


def given(source: str, target: str, model: Path, gold: Path | None = None) -> RunInputs:
    data = {"source": source, "target": target, "output": "run", "model": str(model)}
    settings = MineConfig.model_validate({**data, "gold": None if gold is None else str(gold)})
    return RunInputs(settings, ModelState(settings.model))


def test_files_that_appear_vanish_or_change_are_named(tmp_path: Path, model: Path) -> None:
    name = load_encoder(model).hash
    paths = [tmp_path / f"{stem}.txt" for stem in ("a", "b", "c", "gold")]
    for path in paths:
        path.write_text("one\n", encoding="utf-8")
    a, b, c, gold = paths
    first = given(str(tmp_path / "[ab].txt"), str(c), model, gold)
    assert first.changes(name) == []
    os.utime(a, (1, 1))
    assert first.changes(name) == []
    a.write_text("two\n", encoding="utf-8")
    gold.unlink()
    assert first.changes(name) == [f"{a}: has changed", f"{gold}: is gone"]
    both = given(str(tmp_path / "?.txt"), str(c), model)
    (tmp_path / "d.txt").write_text("new\n", encoding="utf-8")
    b.unlink()
    assert both.changes(name) == [f"{tmp_path / 'd.txt'}: is a new file of the source side", f"{b}: is gone"]
    twice = given(str(c), str(c), model)
    c.write_text("other\n", encoding="utf-8")
    assert twice.changes(name) == [f"{c}: has changed"]
    c.unlink()
    assert f"the files of the target side can no longer be found ({c}: no such file" in both.changes(name)[-1]


def test_catalogues_of_a_package_are_looked_for_again(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "somepackage" / "locale" / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (tmp_path / "somepackage" / "__init__.py").touch()
    (folder / "one.po").write_text('msgid "a"\nmsgstr "b"\n', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "x.txt").write_text("one\n", encoding="utf-8")
    source = {"path": "gettext:somepackage:de", "text": "msgid"}
    settings = MineConfig.model_validate(
        {"source": source, "target": str(tmp_path / "x.txt"), "output": "run", "model": str(model)}
    )
    packages = RunInputs(settings, ModelState(settings.model))
    assert packages.changes(load_encoder(model).hash) == []
    (folder / "two.po").write_text('msgid "c"\nmsgstr "d"\n', encoding="utf-8")
    assert packages.changes(load_encoder(model).hash) == [f"{folder / 'two.po'}: is a new file of the source side"]


def test_changed_model_is_hashed_only_when_it_looks_changed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ModelState(str(model))
    name = load_encoder(model, dim=8).hash
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.inputs.folder_hash", lambda *_: pytest.fail("read again"))
        assert before.change(name) is None
    os.utime(model / "config.json", (1, 1))
    assert before.change(name) is None
    (model / "config.json").unlink()
    assert before.change(name) == f"{model}: the model has changed"


def test_failed_run_says_that_the_pairs_are_of_an_earlier_one(
    own: Task, model: Path, tmp_path: Path, when: Callable
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(BitextError) as first:
        run_mine(config(own, model, folder, search__k=3, gold=str(own.source)), quiet=True)
    assert "earlier run" not in str(first.value)
    assert manifest(folder) == {"complete": False, "pairs_of_an_earlier_run": False}
    run_mine(config(own, model, folder), quiet=True)
    kept = contents(folder)
    append(own.source, "s-new\tx\ty\tz\n")()
    with pytest.raises(BitextError, match=r"pairs\.tsv and what lies beside it are still those of an earlier run\)$"):
        run_mine(config(own, model, folder), quiet=True)
    assert manifest(folder) == {"complete": False, "pairs_of_an_earlier_run": True}
    assert contents(folder) == kept


def test_run_that_fails_after_its_pairs_are_written_does_not_call_them_old(
    own: Task, model: Path, tmp_path: Path, when: Callable
) -> None:
    run_mine(config(own, model, tmp_path / "run"), quiet=True)
    when("metrics", append(own.gold, "s-0001\tt-0059\n"))
    with pytest.raises(BitextError, match=r"the gold file changed during the run: run the command again$"):
        run_mine(config(own, model, tmp_path / "run", threshold=1.01), quiet=True)


def test_settings_are_there_from_the_beginning(own: Task, model: Path, tmp_path: Path, when: Callable) -> None:
    found: list[str] = []
    outside = tmp_path / "outside.yaml"
    outside.write_text("mine", encoding="utf-8")
    run_mine(config(own, model, tmp_path / "run", search__k=2), quiet=True)
    when("read", lambda: found.append((tmp_path / "run" / "config.resolved.yaml").read_text(encoding="utf-8")))
    run_mine(config(own, model, tmp_path / "run", search__k=3), quiet=True)
    assert "k: 3" in found[0]


CLUSTERS = {"search__method": "clusters", "search__nlist": 5, "search__nprobe": 2}


def test_stages_of_another_search_method_are_swept_when_the_run_has_ended(
    own: Task, model: Path, tmp_path: Path, when: Callable
) -> None:
    work = tmp_path / "run" / "work"
    run_mine(config(own, model, tmp_path / "run", **CLUSTERS), quiet=True)
    assert {"clusters", "assign", "join"} <= {path.name for path in work.iterdir()}
    there: list[bool] = []
    when("metrics", lambda: there.append((work / "join").is_dir()))
    run_mine(config(own, model, tmp_path / "run", with_gold=False), quiet=True)
    assert there == [True]
    assert {path.name for path in work.iterdir()} == {
        *("read", "dedup", "shard", "encode", "search", "merge", "score", "match", "emit", "output", "metrics", "lists")
    }
    lists = {path.name for path in (work / "lists").iterdir()}
    # Chunks, keys of texts and ids, duplicates, validity, shards, means, runs and partial lists of
    # both sides.
    assert len(lists) == 2 * 9
    again = run_mine(config(own, model, tmp_path / "run", with_gold=False), quiet=True)
    assert redone(again) == set()
    assert {path.name for path in (work / "lists").iterdir()} == lists


def test_names_that_are_not_utf8(own: Task, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xe9")
    folder.mkdir()
    source = folder / os.fsdecode(b"caf\xe9.tsv")
    shutil.copy(own.source, source)
    result = run_mine(config(own, model, tmp_path / "run", source__path=str(source)), quiet=True)
    assert manifest(result.folder)["inputs"]["source"][0]["path"] == f"{tmp_path}/d\\xe9/caf\\xe9.tsv"
    files = pq.read_table(result.folder / "dropped.parquet", columns=["side", "file"]).to_pylist()
    assert {row["file"] for row in files if row["side"] == "source"} == {"caf\\xe9.tsv"}
    # What is needed to repeat the run is there as it was.
    resolved = read_yaml(result.folder / "config.resolved.yaml")
    assert resolved["source"]["path"] == [str(source)]
    with pytest.raises(UsageError, match=r"d\\xe9/run: the name of the run folder is not UTF-8"):
        run_mine(config(own, model, folder / "run"), quiet=True)
