"""Steps: their keys, their markers, what a worker does about them, and damage of all kinds."""

import dataclasses
import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mining.errors import RunError
from mining.io.files import file_hash
from mining.io.json_file import write_json
from pipelines import steps, worker
from pipelines.records import Artefact, Listing
from pipelines.steps import Cost, Failure, Marker, Outputs, Step, read_failure, read_marker, sweep, verified_marker
from pipelines.worker import do_step
from tests.pipelines.made_up import STAGE, Inputs, Params, Report, fail_with, names, step_in, write


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "f")


def forget_nothing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted, not made."""
    pauses: list[float] = []
    monkeypatch.setattr(worker.time, "sleep", pauses.append)
    return pauses


def test_a_step_leaves_its_file_and_its_marker(stage, tmp_path):
    step = step_in(tmp_path)
    began, cpu = time.monotonic(), time.process_time()
    do_step(step)
    took = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
    assert names(tmp_path) == ["one.json", "one.txt"]
    marker = verified_marker(step)
    assert marker is not None
    for kind, most in took.items():
        assert 0 <= getattr(marker.cost, kind) <= most + 0.001
    assert 1 << 20 < marker.cost.peak_memory < 1 << 50
    file = Artefact(f"work/{STAGE}/one.txt", file_hash(tmp_path / f"work/{STAGE}/one.txt"), 5)
    assert marker.report == Report(file, 3, {"2": "b", "10": "a"}, 0.25)
    assert marker.cost.worker.endswith(f":{os.getpid()}")


def test_files_have_their_names_before_the_marker_is_written(stage, tmp_path, monkeypatch):
    seen = []

    def look(step: Step[Any], marker: Marker[Any]) -> None:
        seen.append((names(tmp_path), marker.report.file.path))

    monkeypatch.setattr(steps, "write_marker", look)
    do_step(step_in(tmp_path))
    assert seen == [(["one.txt"], f"work/{STAGE}/one.txt")]


def test_no_marker_where_a_file_does_not_get_its_name(stage, tmp_path, monkeypatch):
    replace = os.replace

    def refuse(source: str, target: Any) -> None:
        if str(target).endswith("two.txt"):
            raise OSError(errno.EACCES, "no", str(target))
        replace(source, target)

    def act(params: Params, outputs: Outputs) -> list[Artefact]:
        for name in ("one.txt", "two.txt"):
            Path(outputs.path(name)).write_text("whole", encoding="utf-8")
        return [outputs.artefact("one.txt"), outputs.artefact("two.txt")]

    stage(act)
    monkeypatch.setattr(steps.os, "replace", refuse)
    step = step_in(tmp_path)
    do_step(step)
    assert read_marker(step) is None
    assert read_failure(step) is not None
    assert names(tmp_path) == ["one.error.json", "one.txt"]


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "other"},
        {"name": "other"},
        {"params": Params("other")},
        {"inputs": Inputs(Artefact("in", "other", 1))},
        {"inputs": Inputs(more=Listing("hash"))},
        {"destination": "."},
        {"versions": {"numpy": "1"}},
    ],
)
def test_key_depends_on(change, tmp_path):
    step = step_in(tmp_path)
    assert dataclasses.replace(step, **change).key != step.key


def test_key_does_not_depend_on(tmp_path, monkeypatch):
    key = step_in(tmp_path).key
    assert step_in(tmp_path, params=Params(threads=2)).key == key
    assert step_in(tmp_path / "moved", inputs=Inputs(Artefact("elsewhere", "hash", 1))).key == key
    monkeypatch.setattr(steps, "VERSION", steps.VERSION + 1)
    assert step_in(tmp_path).key != key


def test_key_of_a_name_that_is_no_utf8(tmp_path):
    assert step_in(tmp_path, params=Params("caf\udce9")).key != step_in(tmp_path, params=Params("caf")).key


def test_report_must_name_every_file_that_was_written(stage, tmp_path):
    def act(params: Params, outputs: Outputs) -> Report:
        Path(outputs.path("unnamed.txt")).write_text("whole", encoding="utf-8")
        return write(params, outputs)

    stage(act)
    do_step(step_in(tmp_path))
    failure = read_failure(step_in(tmp_path))
    assert failure is not None
    assert "unnamed.txt" in failure.message
    assert names(tmp_path) == ["one.error.json"]


@pytest.mark.parametrize(
    "report",
    [
        {"rows": "3"},
        {"rows": 3.5},
        {"rows": None},
        {"share": "0.25"},
        {"parts": {"a": 1}},
        {"parts": []},
        {"file": None},
        {"file": {"path": "x", "hash": "y"}},
    ],
)
def test_report_of_other_types_is_no_report(report, stage, tmp_path):
    step = step_in(tmp_path)
    do_step(step)
    data = json.loads(step.marker_path.read_text(encoding="utf-8"))
    data.pop("seal")
    data["report"] |= report
    write_json(step.marker_path, {**data, "seal": steps._seal(data)})
    assert read_marker(step) is None


def test_files_go_where_the_step_says(stage, tmp_path):
    step = step_in(tmp_path, destination="results/of/it")
    do_step(step)
    marker = verified_marker(step)
    assert marker is not None
    assert marker.report.file.path == "results/of/it/one.txt"
    assert (tmp_path / "results/of/it/one.txt").read_text(encoding="utf-8") == "whole"


def test_another_key_is_done_again(stage, tmp_path):
    do_step(step_in(tmp_path))
    assert read_marker(step_in(tmp_path, inputs=Inputs(Artefact("in", "other", 1)))) is None


def test_a_step_delivered_twice_is_done_once(stage, tmp_path):
    calls = stage(write)
    for _ in range(2):
        do_step(step_in(tmp_path))
    assert calls == ["one"]


def test_a_step_is_done_again_when_its_file_is_not_the_one(stage, tmp_path):
    calls = stage(write)
    step = step_in(tmp_path)
    for text in ("other", "longer than it was", None):
        do_step(step)
        path = tmp_path / f"work/{STAGE}/one.txt"
        path.unlink() if text is None else path.write_text(text, encoding="utf-8")
        assert verified_marker(step) is None
        assert read_marker(step) is not None
    do_step(step)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (OSError(errno.EIO, "flaky"), 3),
        (OSError(errno.ENOSPC, "full"), 1),
        (OSError(errno.EDQUOT, "full"), 1),
        (OSError(errno.ENOENT, "gone"), 1),
        (OSError("2000 requested and 1016 written"), 1),
        (ValueError("defect"), 1),
    ],
)
def test_attempts(error, attempts, stage, tmp_path, monkeypatch):
    pauses = forget_nothing(monkeypatch)
    calls = stage(fail_with(error))
    do_step(step_in(tmp_path))
    assert len(calls) == attempts
    assert pauses == [0.5, 1.0][: attempts - 1]
    assert names(tmp_path) == ["one.error.json"]


def test_an_attempt_may_follow_a_failed_one(stage, tmp_path, monkeypatch, caplog):
    forget_nothing(monkeypatch)
    errors = [OSError(errno.EIO, "flaky"), OSError(errno.EIO, "flaky")]

    def act(params: Params, outputs: Outputs) -> Any:
        if errors:
            fail_with(errors.pop())(params, outputs)
        return write(params, outputs)

    stage(act)
    do_step(step_in(tmp_path))
    assert names(tmp_path) == ["one.json", "one.txt"]
    assert [record.message.split("; ")[1] for record in caplog.records] == [
        "attempt 2 of 3 follows",
        "attempt 3 of 3 follows",
    ]


def test_interruptions_leave_no_files_and_no_word(stage, tmp_path):
    def act(params: Params, outputs: Outputs) -> None:
        Path(outputs.path("one.txt")).write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    stage(act)
    with pytest.raises(KeyboardInterrupt):
        do_step(step_in(tmp_path))
    assert names(tmp_path) == []


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_of_a_marker_does_more_than_do_the_step_again(stage, tmp_path, data):
    step = step_in(tmp_path)
    outputs = Outputs(step)
    outputs.commit(write(Params(), outputs), Cost(0.5, 0.5, 1, "w"))
    whole = step.marker_path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "insert", "leave out"]))
    piece = data.draw(
        st.binary(min_size=1, max_size=4) | st.sampled_from([b"[" * 9999, b"9" * 9999, b"1e999", b"\xff"])
    )
    end = place + (len(piece) if kind == "change" else 0 if kind == "insert" else 1)
    damaged = whole[:place] + (b"" if kind in ("cut", "leave out") else piece)
    damaged += b"" if kind == "cut" else whole[end:]
    step.marker_path.write_bytes(damaged)
    marker = verified_marker(step)
    if marker is not None:
        # Only what JSON does not see, such as a space, may differ.
        assert json.loads(damaged) == json.loads(whole)
    do_step(step)
    assert verified_marker(step) is not None


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "3", '"text"', "{}", '{"seal": 3}', "[" * 100_000, "9" * 100_000, '{"a": NaN}', "\ufeff{}"],
)
def test_other_things_in_the_place_of_a_marker_or_an_error(content, stage, tmp_path):
    step = step_in(tmp_path)
    step.marker_path.parent.mkdir(parents=True)
    step.marker_path.write_text(content, encoding="utf-8")
    assert verified_marker(step) is None
    step.error_path.write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=r"one failed, and .*one.error.json cannot be read"):
        read_failure(step)


@pytest.mark.parametrize("change", [{"message": ["x"]}, {"exit_code": 3}, {"exit_code": "1"}, {"more": 1}])
def test_an_error_file_of_other_types_cannot_be_read(change, stage, tmp_path):
    step = step_in(tmp_path)
    step.error_path.parent.mkdir(parents=True)
    whole = vars(Failure("x", 1, True, "", "w"))
    step.error_path.write_text(json.dumps(whole), encoding="utf-8")
    assert read_failure(step) == Failure("x", 1, True, "", "w")
    step.error_path.write_text(json.dumps({**whole, **change}), encoding="utf-8")
    with pytest.raises(RunError, match="cannot be read"):
        read_failure(step)


@pytest.mark.parametrize("key", ["key", "report", "cost", "seal", "bytes", "hash", "rows", "seconds"])
def test_a_changed_letter_in_a_key(key, stage, drive, tmp_path):
    step = step_in(tmp_path)
    do_step(step)
    text = step.marker_path.read_text(encoding="utf-8")
    assert f'"{key}":' in text
    step.marker_path.write_text(text.replace(f'"{key}":', f'"x{key[1:]}":'), encoding="utf-8")
    assert read_marker(step) is None
    calls = stage(write)
    calls.clear()
    assert drive(lambda steps: [do_step(step) for step in steps])[0].rows == 3
    assert calls == ["one"]


def test_sweeping_leaves_what_is_to_be_kept_and_folders(tmp_path):
    for name in ("kept", "gone"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    sweep(tmp_path, {tmp_path / "kept"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "kept"]
    sweep(tmp_path / "none", set())


@pytest.mark.parametrize(
    ("word", "share"), [("0.2500", 0.25), ("1", 1.0), ("0", 0.0), ("nan", 0), ("inf", 0), ("-1", 0), ("", 0), ("x", 0)]
)
def test_progress_of_a_step(word, share, stage, tmp_path):
    step = step_in(tmp_path)
    assert step.done() == 0
    step.progress_path.parent.mkdir(parents=True)
    step.progress_path.write_text(word, encoding="utf-8")
    assert step.done() == share
    do_step(step)
    assert step.done() == 1


def test_progress_is_told_twice_a_second_at_most(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(steps.time, "monotonic", lambda: clock[0])
    step = step_in(tmp_path)
    outputs = Outputs(step)
    told = []
    for clock[0], share in ((100.4, 0.1), (100.5, 0.2), (100.9, 0.3), (101.0, 0.4)):
        outputs.progress(share)
        told.append(step.done())
    assert told == [0, 0.2, 0.2, 0.4]
    monkeypatch.setattr(steps.os, "replace", full)
    clock[0] = 200.0
    outputs.progress(0.9)
    assert step.done() == 0.4
    assert names(tmp_path) == ["one.progress"]
