import errno
import fcntl
import json
import os
import socket
from pathlib import Path

import pytest

from mining.errors import RunError, UsageError
from pipelines.mine import run_mine
from pipelines.run_folder import LOCK, RESULTS, locked, make_run_folder
from pipelines.steps import VERSION
from tests.pipelines.conftest import config, contents


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file that no run may touch."""
    path = tmp_path / "precious"
    path.write_text("precious", encoding="utf-8")
    return path


def test_the_lock_names_its_holder_and_goes_with_it(tmp_path):
    make_run_folder(tmp_path / "run")
    with locked(tmp_path / "run"):
        facts = json.loads((tmp_path / "run" / LOCK).read_text(encoding="utf-8"))
        assert facts == {"host": socket.gethostname(), "pid": os.getpid(), "version": VERSION}
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with (
            pytest.raises(RunError, match=rf"another run is working in this folder \({holder}\)"),
            locked(tmp_path / "run"),
        ):
            pass
    with locked(tmp_path / "run"):
        pass


def test_steps_of_another_version_are_announced_once(tmp_path):
    make_run_folder(tmp_path)
    seen = []
    for version in (None, VERSION - 1, VERSION):
        if version is not None:
            (tmp_path / "work").mkdir(exist_ok=True)
            (tmp_path / LOCK).write_text(json.dumps({"host": "h", "pid": 1, "version": version}), encoding="utf-8")
        for _ in range(2):
            with locked(tmp_path) as outdated:
                seen.append(outdated)
    assert seen == [False, False, True, False, False, False]


def test_run_in_a_folder_of_another_version_does_all_steps_anew_and_says_so(
    task, tiny_model, tmp_path, finished, capsys
):
    folder = tmp_path / "run"
    run_mine(config(task, tiny_model, folder), quiet=True)
    for marker in (folder / "work").glob("*/*.json"):
        if marker.parent.name != "lists":
            marker.write_text('{"files": {}, "info": {}, "key": "", "seal": ""}', encoding="utf-8")
    (folder / LOCK).write_text('{"host": "h", "pid": 1}', encoding="utf-8")
    result = run_mine(config(task, tiny_model, folder))
    said = " ".join(capsys.readouterr().err.split())
    assert f"{folder}: was begun by another version of this program: all steps are done anew" in said
    assert all(row.skipped == 0 for row in result.report)
    assert contents(folder) == contents(finished.folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{}", b"\xff", b"[" * 100_000])
def test_a_lock_that_names_nobody(content, tmp_path):
    make_run_folder(tmp_path)
    with locked(tmp_path):
        (tmp_path / LOCK).write_bytes(content)
        with pytest.raises(RunError, match="unknown process"), locked(tmp_path):
            pass


def test_a_shorter_name_leaves_nothing_of_a_longer_one(tmp_path):
    make_run_folder(tmp_path)
    (tmp_path / LOCK).write_text("x" * 1000, encoding="utf-8")
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text(encoding="utf-8"))["pid"] == os.getpid()


def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch, caplog):
    def fail(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    make_run_folder(tmp_path)
    with locked(tmp_path):
        assert f"{tmp_path}: cannot be locked on this file system (No locks available)" in caplog.text


def test_no_handle_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    make_run_folder(tmp_path)
    with locked(tmp_path), pytest.raises(RunError), locked(tmp_path):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_other_things_in_the_place_of_the_lock_are_named(kind, precious, tmp_path):
    lock = tmp_path / "run" / LOCK
    lock.parent.mkdir()
    match kind:
        case "link":
            lock.symlink_to(precious)
        case "dangling link":
            lock.symlink_to(tmp_path / "nothing")
        case "folder":
            lock.mkdir()
        case "pipe":
            os.mkfifo(lock)
    for enter in (make_run_folder, lambda path: locked(path).__enter__()):
        with pytest.raises(UsageError, match=rf"{LOCK}: the lock of a run is a plain file"):
            enter(lock.parent)
    assert precious.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "nothing").exists()
    assert sorted(path.name for path in lock.parent.iterdir()) == [LOCK]


@pytest.mark.parametrize("name", ["work", "work/read"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_links_and_files_in_the_place_of_the_work_are_named(name, kind, precious, tmp_path):
    place = tmp_path / "run" / name
    place.parent.mkdir(parents=True)
    (tmp_path / "run" / LOCK).touch()
    (tmp_path / "elsewhere").mkdir()
    if kind == "file":
        place.write_text("mine", encoding="utf-8")
    else:
        place.symlink_to(tmp_path / ("elsewhere" if kind == "link" else "nothing"))
    with pytest.raises(UsageError, match=rf"{name}: a run keeps its work in a folder here"):
        make_run_folder(tmp_path / "run")


@pytest.mark.parametrize("name", RESULTS)
def test_a_folder_in_the_place_of_a_result_is_named_before_any_work(name, run, tmp_path):
    (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / LOCK).touch()
    with pytest.raises(UsageError, match=rf"{name}: a file of this name is to be written, and it is a folder"):
        run()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted([LOCK, name])


def test_results_that_are_links_give_way_and_their_targets_stay(run, finished, precious, tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    # The folder itself may be a link.
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    (tmp_path / "run" / LOCK).touch()
    for name in RESULTS:
        (tmp_path / "run" / name).symlink_to(precious)
    folder = run().folder
    assert contents(folder) == contents(finished.folder)
    assert not [path.name for path in folder.iterdir() if path.is_symlink()]
    assert set(RESULTS) <= {path.name for path in folder.iterdir()}
    assert precious.read_text(encoding="utf-8") == "precious"


def test_a_folder_that_cannot_be_made_is_named(precious):
    with pytest.raises(UsageError, match="the run folder cannot be written: Not a directory; choose another output"):
        make_run_folder(precious / "run")
    with pytest.raises(UsageError, match="the run folder cannot be written: File exists; choose another output"):
        make_run_folder(precious)


def test_a_lock_that_may_not_be_made_is_told_as_what_it_is(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match="the run folder cannot be written: Permission denied; choose another output"):
        make_run_folder(tmp_path / "run")
