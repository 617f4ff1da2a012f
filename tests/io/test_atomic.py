import errno
import fcntl
import json
import os

import numpy as np
import pytest

from mining.encoder.vector_file import check_target, write_vectors
from mining.errors import UsageError
from mining.io.arrays import GrowingArray, write_array
from mining.io.atomic import TEMPORARY, reason, remove_begun, replace_file, replacing
from mining.io.json_file import write_json
from mining.io.lock import take_lock
from mining.scoring import check_output
from mining.training.curves import LOG_FILE, Curves


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")

    def write() -> None:
        with replacing(path) as temporary:
            (tmp_path / temporary).write_text("half", encoding="utf-8")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "old")]
    replace_file(path, b"new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "new")]


BLOCK = (["a"], np.eye(1, 4, dtype=np.float32), np.ones(1, bool))
WRITERS = {
    "replace_file": ("file", lambda path: replace_file(path, b"new")),
    "write_json": ("file.json", lambda path: write_json(path, {})),
    "vectors.npy": ("vectors.npy", lambda path: write_vectors(path, [BLOCK], dim=4, model_hash="m")),
    "vectors.parquet": ("vectors.parquet", lambda path: write_vectors(path, [BLOCK], dim=4, model_hash="m")),
    "rows of vectors": (
        "vectors.npy.rows.parquet",
        lambda path: write_vectors(path.with_name("vectors.npy"), [BLOCK], dim=4, model_hash="m"),
    ),
    "facts of vectors": (
        "vectors.npy.json",
        lambda path: write_vectors(path.with_name("vectors.npy"), [BLOCK], dim=4, model_hash="m"),
    ),
    "growing array": ("array.npy", lambda path: GrowingArray(path, "int64").close()),
    "whole array": ("array.npy", lambda path: write_array(path, np.arange(3))),
    "log of a training": (LOG_FILE, lambda path: Curves(path.parent).add({"step": 1})),
}


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_symbolic_link_gives_way_and_its_target_stays(writer, dangling, tmp_path):
    name, write = WRITERS[writer]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    target, path = tmp_path / "elsewhere" / "precious", tmp_path / "here" / name
    if not dangling:
        target.write_text("precious", encoding="utf-8")
    path.symlink_to(target)
    write(path)
    assert path.is_file()
    assert not path.is_symlink()
    assert target.exists() is not dangling
    assert dangling or target.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["folder", "pipe"])
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("file", lambda path: replace_file(path, b"new")),
        ("vectors.npy", check_target),
        ("vectors.npy.json", lambda path: check_target(path.with_name("vectors.npy"))),
        ("vectors.npy.rows.parquet", lambda path: check_target(path.with_name("vectors.npy"))),
        ("scores.tsv", check_output),
    ],
)
def test_a_folder_or_a_pipe_in_a_files_place_is_named(make, name, write, tmp_path):
    make(tmp_path / name)
    with pytest.raises(UsageError, match=rf"{name}: .*(folder|pipe)"):
        write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_begun_is_removed_when_the_process_is_stopped(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "b") as other:
        for path in (one, other):
            (tmp_path / path).write_text("half", encoding="utf-8")
        remove_begun()
        assert list(tmp_path.iterdir()) == []
        for path in (one, other):
            (tmp_path / path).write_text("whole", encoding="utf-8")
    remove_begun()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_json_holds_names_that_are_no_utf8_visibly(tmp_path):
    name = os.fsdecode(b'caf\xe9\\ "quoted" \xc3\xa9')
    write_json(tmp_path / "file", {name: [name, "\ud83d"]})
    read = json.loads((tmp_path / "file").read_bytes())
    assert read == {'caf\\xe9\\ "quoted" é': ['caf\\xe9\\ "quoted" é', "\\ud83d"]}


@pytest.mark.parametrize(
    ("number", "ours"),
    [(errno.EWOULDBLOCK, False), (errno.EACCES, False)]
    + [(number, True) for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO)],
)
def test_only_a_held_lock_means_another_process(number, ours, tmp_path, monkeypatch, caplog):
    def fail(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert take_lock(0, tmp_path) is ours
    assert bool(caplog.records) is ours
    if ours:
        assert f"{tmp_path}: cannot be locked on this file system ({os.strerror(number)})" in caplog.text


def test_a_full_disk_in_words():
    assert reason(OSError(errno.ENOSPC, "No space left on device", "f")) == "f: No space left on device"
    assert reason(OSError(errno.ENOSPC, "Error writing bytes to file", "f")) == "f: No space left on device"
    assert reason(OSError("2000 requested and 1016 written")) == "No space left on device"
    assert reason(OSError("another thing")) == "another thing"


def test_a_power_cut_finds_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    replace_file(tmp_path / "file", b"new")
    assert [path.partition(TEMPORARY)[0] for path in synced] == [str(tmp_path / "file"), str(tmp_path)]
    synced.clear()
    # What is renamed once more by its owner need not last yet.
    with replacing(tmp_path / "file") as temporary:
        replace_file(temporary, b"newer")
        assert synced == []
    assert (tmp_path / "file").read_bytes() == b"newer"
    assert len(synced) == 2


def test_arrays_of_rows_grow(tmp_path):
    with GrowingArray(tmp_path / "a.npy", "float32", (2,)) as array:
        array.append(np.ones((1, 2)))
        array.append(np.zeros((2, 2)))
    assert np.load(tmp_path / "a.npy").tolist() == [[1, 1], [0, 0], [0, 0]]
