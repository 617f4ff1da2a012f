"""Steps, their markers and errors, and how the driver takes them, with a stage that the test makes
up."""

import errno
import json
import logging
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mining.config.mine import RunnerSettings
from mining.errors import BitextError, InputError, RunError, UsageError
from pipelines import artefacts, engine, work
from pipelines.artefacts import Failure, Marker, Outputs, Step, read_failure, read_marker, sweep, verified_marker
from pipelines.engine import Engine
from pipelines.progress import Progress
from pipelines.work import StepFailedError, carried_failure, do_step

STAGE = "made_up"


def step_in(folder: Path, name: str = "one", **changes: Any) -> Step:
    facts = {"stage": STAGE, "params": {"text": "whole"}, "inputs": {"in": "hash"}}
    return Step(str(folder), name=name, **{**facts, **changes})


def write(step: Step, outputs: Outputs) -> dict[str, Any]:
    """What the stage does: one file."""
    Path(outputs.path(f"{step.name}.txt")).write_text(step.params["text"], encoding="utf-8")
    return {"rows": 3, "parts": {2: "b", 10: "a"}, "share": 0.25}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Step, Outputs], Any]], list[str]]:
    """Give the stage something to do; returns the list of the names of steps that it was called
    with."""
    calls: list[str] = []

    def become(act: Callable[[Step, Outputs], Any]) -> list[str]:
        def run(step: Step, outputs: Outputs) -> Any:
            calls.append(step.name)
            return act(step, outputs)

        module = ModuleType(f"pipelines.transforms.{STAGE}")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return calls

    become(write)
    return become


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Marker]]:
    """Run steps by an engine whose runner is a function of the list of steps."""

    def run(runner: Callable[[list[Step]], None], *names: str) -> list[Marker]:
        monkeypatch.setattr(engine, "run_pipeline", lambda stage, steps, settings: runner(list(steps)))
        steps = [step_in(tmp_path, name) for name in names or ("one",)]
        return Engine(RunnerSettings(), Progress(quiet=True)).run(STAGE, steps)

    return run


def fail_with(error: Exception) -> Callable[[Step, Outputs], Any]:
    def act(step: Step, outputs: Outputs) -> Any:
        Path(outputs.path(f"{step.name}.txt")).write_text("half", encoding="utf-8")
        raise error

    return act


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "work" / STAGE).iterdir())


def forget_nothing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted, not made."""
    pauses: list[float] = []
    monkeypatch.setattr(work.time, "sleep", pauses.append)
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
        assert 0 <= marker.cost[kind] <= most + 0.001
    assert 1 << 20 < marker.cost["peak_memory"] < 1 << 50
    assert marker.info == {"rows": 3, "parts": {"2": "b", "10": "a"}, "share": 0.25}
    assert marker.files == {
        f"work/{STAGE}/one.txt": {"bytes": 5, "hash": artefacts.file_hash(tmp_path / f"work/{STAGE}/one.txt")}
    }
    assert marker.file(".txt") == f"work/{STAGE}/one.txt"
    assert marker.inputs(".npy") == {}
    assert set(marker.cost) == {"seconds", "cpu_seconds", "peak_memory", "worker"}
    assert marker.cost["worker"].endswith(f":{os.getpid()}")


def test_files_have_their_names_before_the_marker_is_written(stage, tmp_path, monkeypatch):
    seen = []

    def look(step: Step, marker: Marker) -> None:
        seen.append((names(tmp_path), marker.files))

    monkeypatch.setattr(artefacts, "write_marker", look)
    do_step(step_in(tmp_path))
    ((before, files),) = seen
    assert before == ["one.txt"]
    assert list(files) == [f"work/{STAGE}/one.txt"]


def test_no_marker_where_a_file_does_not_get_its_name(stage, tmp_path, monkeypatch):
    replace = os.replace

    def refuse(source: str, target: Any) -> None:
        if str(target).endswith("two.txt"):
            raise OSError(errno.EACCES, "no", str(target))
        replace(source, target)

    def act(step: Step, outputs: Outputs) -> None:
        for name in ("one.txt", "two.txt"):
            Path(outputs.path(name)).write_text("whole", encoding="utf-8")

    stage(act)
    monkeypatch.setattr(artefacts.os, "replace", refuse)
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
        {"params": {"text": "other"}},
        {"inputs": {"in": "other"}},
        {"inputs": {"in": "hash", "more": "hash"}},
        {"destination": "."},
        {"lists": {"shards": "hash"}},
        {"versions": {"numpy": "1"}},
    ],
)
def test_key_depends_on(change, tmp_path):
    assert step_in(tmp_path, **change).key != step_in(tmp_path).key


def test_key_does_not_depend_on(tmp_path, monkeypatch):
    key = step_in(tmp_path).key
    assert step_in(tmp_path, execution={"threads": 2}).key == key
    assert step_in(tmp_path / "moved", inputs={"elsewhere": "hash"}).key == key
    assert step_in(tmp_path, params={"a": 1, "b": 2}).key == step_in(tmp_path, params={"b": 2, "a": 1}).key
    monkeypatch.setattr(artefacts, "VERSION", artefacts.VERSION + 1)
    assert step_in(tmp_path).key != key


def test_key_of_a_name_that_is_no_utf8(tmp_path):
    assert step_in(tmp_path, params={"name": "caf\udce9"}).key != step_in(tmp_path, params={"name": "caf"}).key


def test_paths_are_of_the_run_folder_unless_they_are_absolute(tmp_path):
    step = step_in(tmp_path)
    assert step.path("work/read/a.npy") == f"{tmp_path}/work/read/a.npy"
    assert step.path("/elsewhere/a.txt") == "/elsewhere/a.txt"


def test_files_go_where_the_step_says(stage, tmp_path):
    step = step_in(tmp_path, destination="results/of/it")
    do_step(step)
    marker = verified_marker(step)
    assert marker is not None
    assert list(marker.files) == ["results/of/it/one.txt"]
    assert (tmp_path / "results/of/it/one.txt").read_text(encoding="utf-8") == "whole"


def test_another_key_is_done_again(stage, tmp_path):
    do_step(step_in(tmp_path))
    assert read_marker(step_in(tmp_path, inputs={"in": "other"})) is None


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


def test_success_after_failure_removes_the_error(stage, drive, tmp_path):
    left = []

    def runner(steps: list[Step]) -> None:
        for act in (fail_with(InputError("first")), write):
            stage(act)
            do_step(steps[0])
            left.append(names(tmp_path))

    assert drive(runner)[0].info["rows"] == 3
    assert left == [["one.error.json"], ["one.json", "one.txt"]]


def test_failure_after_success_undoes_nothing(stage, drive, tmp_path, caplog, monkeypatch):
    def runner(steps: list[Step]) -> None:
        stage(write)
        do_step(steps[0])
        # The second delivery had begun before the first one ended.
        monkeypatch.setattr(work, "verified_marker", lambda step: None)
        stage(fail_with(InputError("second")))
        do_step(steps[0])

    assert drive(runner)[0].info["rows"] == 3
    assert names(tmp_path) == ["one.json", "one.txt"]
    assert "second; the step is done already" in caplog.text


def test_the_marker_counts_before_an_error_file(stage, drive, tmp_path):
    def runner(steps: list[Step]) -> None:
        do_step(steps[0])
        steps[0].error_path.write_text(json.dumps(vars(Failure("late", 1, True, "", "elsewhere"))), encoding="utf-8")

    assert drive(runner)[0].info["rows"] == 3
    assert names(tmp_path) == ["one.json", "one.txt"]


def test_the_markers_count_before_the_end_of_the_runner(stage, drive, caplog):
    def runner(steps: list[Step]) -> None:
        do_step(steps[0])
        raise OSError("lost")

    assert drive(runner)[0].info["rows"] == 3
    assert "failed when every step was done: OSError: lost" in caplog.text


@pytest.mark.parametrize(
    ("error", "kind", "code", "says"),
    [
        (InputError("f:3: bad row"), BitextError, 1, r"^f:3: bad row$"),
        (UsageError("k is too large"), BitextError, 2, r"^k is too large$"),
        (
            ValueError("odd"),
            RunError,
            1,
            r"^stage made_up, one: ValueError: odd; the traceback is in .*one.error.json$",
        ),
        (PermissionError(errno.EACCES, "no", "f"), RunError, 1, r"^stage made_up, one: f: no; the traceback is in"),
    ],
)
def test_a_failed_step_in_one_line(error, kind, code, says, stage, drive, tmp_path):
    stage(fail_with(error))
    with pytest.raises(kind, match=says) as raised:
        drive(lambda steps: [do_step(step) for step in steps])
    assert raised.value.exit_code == code
    assert names(tmp_path) == ["one.error.json"]
    failure = read_failure(step_in(tmp_path))
    assert failure is not None
    assert type(error).__name__ in failure.traceback


def test_several_failed_steps_are_counted_and_those_that_are_done_stay(stage, drive, tmp_path):
    def act(step: Step, outputs: Outputs) -> Any:
        return write(step, outputs) if step.name == "one" else fail_with(InputError(step.name))(step, outputs)

    stage(act)
    with pytest.raises(BitextError, match=r"^two \(2 steps of this stage failed; this is the first\)$"):
        drive(lambda steps: [do_step(step) for step in steps], "one", "two", "three")
    calls = stage(write)
    calls.clear()
    assert len(drive(lambda steps: [do_step(step) for step in steps], "one", "two", "three")) == 3
    assert calls == ["two", "three"]


def test_a_runner_that_does_nothing_or_fails_is_told(stage, drive):
    with pytest.raises(RunError, match="one: the runner ended without doing this step"):
        drive(lambda steps: None)

    def lose(steps: list[Step]) -> None:
        raise OSError("many\nlines, of which\nthe last counts\n\n")

    with pytest.raises(RunError, match=r"^stage made_up failed on FnApiRunner: OSError: the last counts$"):
        drive(lose)

    def refuse(steps: list[Step]) -> None:
        raise UsageError("not this one")

    with pytest.raises(UsageError, match="not this one"):
        drive(refuse)


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "f")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_disk_too_full_for_the_error_file_is_told(wrapped, stage, drive, tmp_path, monkeypatch):
    stage(fail_with(OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(work, "write_json", full)

    def runner(steps: list[Step]) -> None:
        try:
            do_step(steps[0])
        except StepFailedError as error:
            text = f"DoFn failed: {str(error)!r} [while running 'work']\nand more\n"
            raise (RuntimeError(text) if wrapped else error) from None

    with pytest.raises(RunError, match=r"^stage made_up, one: No space left on device$") as raised:
        drive(runner)
    assert raised.value.exit_code == 1
    assert names(tmp_path) == []


def test_a_known_error_is_carried_as_what_it_is(stage, drive, monkeypatch):
    stage(fail_with(UsageError("caf\udce9: bad")))
    monkeypatch.setattr(work, "write_json", full)
    with pytest.raises(BitextError, match=r"^caf\\xe9: bad$") as raised:
        drive(lambda steps: [do_step(step) for step in steps])
    assert raised.value.exit_code == 2


def test_a_carried_failure_can_be_pickled(tmp_path):
    failure = Failure("full", 1, False, "", "w")
    error = pickle.loads(pickle.dumps(work.carrying(step_in(tmp_path), failure)))
    assert type(error) is StepFailedError
    assert carried_failure(error) == ("one", failure)


def test_other_exceptions_carry_nothing():
    assert carried_failure(RuntimeError("bitext-failed-step: nothing")) is None


def test_beam_does_not_log_what_a_carried_failure_went_through(stage, tmp_path, monkeypatch, caplog):
    stage(fail_with(OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(work, "write_json", full)
    caplog.set_level(logging.WARNING)
    with pytest.raises(RunError, match=r"^stage made_up, one: No space left on device$"):
        Engine(RunnerSettings(), Progress(quiet=True)).run(STAGE, [step_in(tmp_path)])
    assert "Traceback" not in caplog.text
    assert "bitext-failed-step" not in caplog.text


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

    def act(step: Step, outputs: Outputs) -> Any:
        if errors:
            fail_with(errors.pop())(step, outputs)
        return write(step, outputs)

    stage(act)
    do_step(step_in(tmp_path))
    assert names(tmp_path) == ["one.json", "one.txt"]
    assert [record.message.split("; ")[1] for record in caplog.records] == [
        "attempt 2 of 3 follows",
        "attempt 3 of 3 follows",
    ]


def test_interruptions_leave_no_files_and_no_word(stage, tmp_path):
    def act(step: Step, outputs: Outputs) -> None:
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
    write(step, outputs)
    outputs.commit({"rows": 3}, {"seconds": 0.5})
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


@pytest.mark.parametrize("key", ["key", "files", "info", "cost", "seal", "bytes", "hash", "rows", "seconds"])
def test_a_changed_letter_in_a_key(key, stage, drive, tmp_path):
    step = step_in(tmp_path)
    do_step(step)
    text = step.marker_path.read_text(encoding="utf-8")
    assert f'"{key}":' in text
    step.marker_path.write_text(text.replace(f'"{key}":', f'"x{key[1:]}":'), encoding="utf-8")
    assert read_marker(step) is None
    calls = stage(write)
    calls.clear()
    assert drive(lambda steps: [do_step(step) for step in steps])[0].info["rows"] == 3
    assert calls == ["one"]


@pytest.mark.parametrize("name", ["one.json", "one.error.json", "one.progress", "one.txt"])
def test_a_folder_in_the_place_of_a_file_is_named(name, stage, drive, tmp_path):
    (tmp_path / "work" / STAGE / name).mkdir(parents=True)
    with pytest.raises(
        BitextError, match=rf"{name}: a file of this name is to be written, and it is a folder"
    ) as error:
        drive(lambda steps: [do_step(step) for step in steps])
    assert error.value.exit_code == 2


def test_links_give_way_to_files_of_a_step(stage, drive, tmp_path):
    folder, precious = tmp_path / "work" / STAGE, tmp_path / "precious"
    folder.mkdir(parents=True)
    precious.write_text("precious", encoding="utf-8")
    for name in ("one.json", "one.txt", "one.error.json", "one.progress", "leftover"):
        (folder / name).symlink_to(precious)
    (folder / "dangling").symlink_to(tmp_path / "nothing")
    drive(lambda steps: [do_step(step) for step in steps])
    assert names(tmp_path) == ["one.json", "one.txt"]
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert precious.read_text(encoding="utf-8") == "precious"


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
    monkeypatch.setattr(artefacts.time, "monotonic", lambda: clock[0])
    step = step_in(tmp_path)
    outputs = Outputs(step)
    told = []
    for clock[0], share in ((100.4, 0.1), (100.5, 0.2), (100.9, 0.3), (101.0, 0.4)):
        outputs.report(share)
        told.append(step.done())
    assert told == [0, 0.2, 0.2, 0.4]
    monkeypatch.setattr(artefacts.os, "replace", full)
    clock[0] = 200.0
    outputs.report(0.9)
    assert step.done() == 0.4
    assert names(tmp_path) == ["one.progress"]


def test_costs_of_a_stage(stage, drive, tmp_path, monkeypatch):
    reports = []
    monkeypatch.setattr(Engine, "_record", lambda self, *facts: reports.append(facts))
    drive(lambda steps: [do_step(step) for step in steps], "one", "two")
    drive(lambda steps: [do_step(step) for step in steps], "one", "two", "three")
    assert [(label, len(steps), len(pending), len(markers)) for label, steps, pending, markers, _ in reports] == [
        (STAGE, 2, 2, 2),
        (STAGE, 3, 1, 3),
    ]


def test_report_of_a_stage(stage, tmp_path):
    engine_ = Engine(RunnerSettings(), Progress(quiet=True))
    steps = [step_in(tmp_path, name) for name in ("one", "two")]
    costs = [{"seconds": 1.50006, "cpu_seconds": 2.25006, "peak_memory": 1 << 50, "worker": "w"}] * 2
    markers = [Marker("k", {"f": {"bytes": 5, "hash": ""}, "g": {"bytes": 7, "hash": ""}}, {}, cost) for cost in costs]
    engine_._record("label", steps, steps[:1], markers, 0.1234)
    assert engine_.report == [
        {
            "stage": "label",
            "steps": 2,
            "skipped": 1,
            "seconds": 0.123,
            "worker_seconds": 3.0,
            "cpu_seconds": 4.5,
            "bytes": 24,
            "peak_memory": 1 << 50,
        }
    ]
