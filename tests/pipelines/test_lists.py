"""Lists of files that many steps read."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from mining.errors import RunError
from pipelines.artefacts import Step
from pipelines.lists import FOLDER, read_list, sweep_lists, write_list

FILES = {"work/encode/a.npy": "1", "work/encode/b.npy": "2"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    read_list.cache_clear()
    return tmp_path


def test_list_is_read_as_it_was_written(run: Path) -> None:
    digest = write_list(run, FILES, [3, 4])
    found = read_list(str(run), digest)
    assert found.paths == [f"{run}/work/encode/a.npy", f"{run}/work/encode/b.npy"]
    assert found.rows == [3, 4]
    assert Step(str(run), "score", "x", {}, {}, lists={"means": digest}).files("means") == found


def test_name_of_a_list_goes_by_paths_hashes_order_and_rows(run: Path) -> None:
    others = [
        (FILES, []),
        (FILES, [3, 4]),
        ({**FILES, "work/encode/b.npy": "3"}, []),
        ({"work/encode/a.npy": "1", "work/encode/c.npy": "2"}, []),
        (dict(reversed(FILES.items())), []),
    ]
    assert len({write_list(run, files, rows) for files, rows in others}) == len(others)
    assert write_list(run, FILES) == write_list(run, dict(FILES))


def test_list_is_written_once_and_again_when_it_is_damaged(run: Path) -> None:
    path = run / FOLDER / f"{write_list(run, FILES)}.json"
    os.utime(path, (1, 1))
    write_list(run, FILES)
    assert path.stat().st_mtime == 1
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a.npy", b"c.npy"))
    with pytest.raises(RunError, match="the list of files is damaged: run the command again"):
        read_list(str(run), path.stem)
    write_list(run, FILES)
    assert path.read_bytes() == content
    assert len(list(path.parent.iterdir())) == 1


def test_missing_list_is_named(run: Path) -> None:
    with pytest.raises(RunError, match=r"work/lists/0123\.json: cannot be read: No such file"):
        read_list(str(run), "0123")


def test_sweep_keeps_what_steps_name(run: Path) -> None:
    sweep_lists(run, [])
    kept, other = write_list(run, FILES), write_list(run, {})
    (run / FOLDER / f"{other}.json.tmp-1").touch()
    sweep_lists(run, [kept])
    assert [path.stem for path in (run / FOLDER).iterdir()] == [kept]


def test_step_with_many_files_is_small(run: Path) -> None:
    files = {f"work/encode/source-{number:05d}.vectors.npy": f"{number:032x}" for number in range(4000)}
    step = Step(str(run), "join", "x", {}, {}, lists={"source.vectors": write_list(run, files, [250_000] * 4000)})
    assert len(pickle.dumps(step)) < 1000
    assert len(step.files("source.vectors").paths) == 4000


def test_key_is_computed_once_and_goes_along(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(str(run), "join", "x", {}, {})
    key = step.key
    monkeypatch.setattr("pipelines.artefacts.json_digest", lambda *_, **__: pytest.fail("computed again"))
    assert step.key == key == pickle.loads(pickle.dumps(step)).key
