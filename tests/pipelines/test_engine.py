"""How the driver takes what steps and runners do: markers, errors, and what a stage took."""

import errno
import json
import logging
import pickle
from typing import Any

import pytest

from mining.config.mine import RunnerSettings
from mining.errors import BitextError, InputError, RunError, UsageError
from pipelines import worker
from pipelines.engine import Engine, StageReport
from pipelines.progress import Progress
from pipelines.records import Artefact
from pipelines.steps import Cost, Failure, Marker, Outputs, Step, read_failure
from pipelines.worker import StepFailedError, carried_failure, do_step
from tests.pipelines.made_up import STAGE, Params, fail_with, names, step_in, write


def test_success_after_failure_removes_the_error(stage, drive, tmp_path):
    left = []

    def runner(steps: list[Step[Any]]) -> None:
        for act in (fail_with(InputError("first")), write):
            stage(act)
            do_step(steps[0])
            left.append(names(tmp_path))

    assert drive(runner)[0].rows == 3
    assert left == [["one.error.json"], ["one.json", "one.txt"]]


def test_failure_after_success_undoes_nothing(stage, drive, tmp_path, caplog, monkeypatch):
    def runner(steps: list[Step[Any]]) -> None:
        stage(write)
        do_step(steps[0])
        # The second delivery had begun before the first one ended.
        monkeypatch.setattr(worker, "verified_marker", lambda step: None)
        stage(fail_with(InputError("second")))
        do_step(steps[0])

    assert drive(runner)[0].rows == 3
    assert names(tmp_path) == ["one.json", "one.txt"]
    assert "second; the step is done already" in caplog.text


def test_the_marker_counts_before_an_error_file(stage, drive, tmp_path):
    def runner(steps: list[Step[Any]]) -> None:
        do_step(steps[0])
        steps[0].error_path.write_text(json.dumps(vars(Failure("late", 1, True, "", "elsewhere"))), encoding="utf-8")

    assert drive(runner)[0].rows == 3
    assert names(tmp_path) == ["one.json", "one.txt"]


def test_the_markers_count_before_the_end_of_the_runner(stage, drive, caplog):
    def runner(steps: list[Step[Any]]) -> None:
        do_step(steps[0])
        raise OSError("lost")

    assert drive(runner)[0].rows == 3
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
    def act(params: Params, outputs: Outputs) -> Any:
        return write(params, outputs) if outputs.name == "one" else fail_with(InputError(outputs.name))(params, outputs)

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

    def lose(steps: list[Step[Any]]) -> None:
        raise OSError("many\nlines, of which\nthe last counts\n\n")

    with pytest.raises(RunError, match=r"^stage made_up failed on FnApiRunner: OSError: the last counts$"):
        drive(lose)

    def refuse(steps: list[Step[Any]]) -> None:
        raise UsageError("not this one")

    with pytest.raises(UsageError, match="not this one"):
        drive(refuse)


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "f")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_disk_too_full_for_the_error_file_is_told(wrapped, stage, drive, tmp_path, monkeypatch):
    stage(fail_with(OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(worker, "write_json", full)

    def runner(steps: list[Step[Any]]) -> None:
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
    monkeypatch.setattr(worker, "write_json", full)
    with pytest.raises(BitextError, match=r"^caf\\xe9: bad$") as raised:
        drive(lambda steps: [do_step(step) for step in steps])
    assert raised.value.exit_code == 2


def test_a_carried_failure_can_be_pickled(tmp_path):
    failure = Failure("full", 1, False, "", "w")
    error = pickle.loads(pickle.dumps(worker.carrying(step_in(tmp_path), failure)))
    assert type(error) is StepFailedError
    assert carried_failure(error) == ("one", failure)


def test_other_exceptions_carry_nothing():
    assert carried_failure(RuntimeError("bitext-failed-step: nothing")) is None


def test_beam_does_not_log_what_a_carried_failure_went_through(stage, tmp_path, monkeypatch, caplog):
    stage(fail_with(OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(worker, "write_json", full)
    caplog.set_level(logging.WARNING)
    with pytest.raises(RunError, match=r"^stage made_up, one: No space left on device$"):
        Engine(RunnerSettings(), Progress(quiet=True)).run([step_in(tmp_path)])
    assert "Traceback" not in caplog.text
    assert "bitext-failed-step" not in caplog.text


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


def test_costs_of_a_stage(stage, drive, tmp_path, monkeypatch):
    reports = []
    monkeypatch.setattr(Engine, "_record", lambda self, *facts: reports.append(facts))
    drive(lambda steps: [do_step(step) for step in steps], "one", "two")
    drive(lambda steps: [do_step(step) for step in steps], "one", "two", "three")
    assert [tuple(map(len, lists)) for *lists, _ in reports] == [(2, 2, 2), (3, 1, 3)]


def test_report_of_a_stage(stage, tmp_path):
    engine = Engine(RunnerSettings(), Progress(quiet=True))
    steps = [step_in(tmp_path, name) for name in ("one", "two")]
    cost = Cost(1.50006, 2.25006, 1 << 50, "w")
    report = [Artefact("f", "", 5), Artefact("g", "", 7)]
    engine._record(steps, steps[:1], 2 * [Marker("k", report, cost, {})], 0.1234)
    assert engine.stages == [
        StageReport(
            stage=STAGE,
            steps=2,
            skipped=1,
            seconds=0.123,
            worker_seconds=3.0,
            cpu_seconds=4.5,
            bytes=24,
            peak_memory=1 << 50,
        )
    ]
