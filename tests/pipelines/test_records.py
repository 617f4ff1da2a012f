"""Typed records of steps: what a key covers, where files are, and lists of files that many steps
read."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mining.corpus import CorpusSpec
from mining.errors import RunError
from pipelines.records import (
    LISTS,
    NOT_IN_KEY,
    Artefact,
    Listing,
    Sides,
    _read_list,
    artefacts,
    files_of,
    key_facts,
    located,
    sweep_lists,
    write_list,
)
from pipelines.steps import Step

FILES = [Artefact("work/encode/a.npy", "1", 10), Artefact("work/encode/b.npy", "2", 20)]


@dataclass(frozen=True)
class Record:
    """One of everything that records of steps are made of."""

    file: Artefact
    listing: Listing
    sides: Sides[list[Artefact]]
    spec: CorpusSpec
    missing: Artefact | None
    count: int
    threads: int = field(metadata=NOT_IN_KEY)


RECORD = Record(FILES[0], Listing("3"), Sides([FILES[1]], []), CorpusSpec(path="x"), None, 5, threads=2)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    _read_list.cache_clear()
    return tmp_path


def test_key_covers_files_by_their_hashes_and_leaves_out_what_cannot_change_the_result() -> None:
    spec = CorpusSpec(path="x").model_dump()
    sides = {"source": ["2"], "target": []}
    assert key_facts(RECORD) == {
        "file": "1",
        "listing": "3",
        "sides": sides,
        "spec": spec,
        "missing": None,
        "count": 5,
    }


def test_files_of_a_record_stand_in_its_order_and_get_the_run_folder() -> None:
    assert list(files_of(RECORD)) == [FILES[0], Listing("3"), FILES[1]]
    assert artefacts(RECORD) == FILES
    found = located(RECORD, "/run")
    assert list(files_of(found)) == [
        Artefact("/run/work/encode/a.npy", "1", 10),
        Listing("3", "/run"),
        Artefact("/run/work/encode/b.npy", "2", 20),
    ]
    assert key_facts(found) == key_facts(RECORD)
    assert located(Artefact("/elsewhere/a.txt", "", 0), "/run").path == "/elsewhere/a.txt"


def test_sides() -> None:
    sides = Sides(1, 2)
    assert list(sides) == [1, 2]
    assert sides.map(str) == Sides("1", "2")
    assert sides.with_other(Sides("a", "b")) == Sides((1, "a"), (2, "b"))


def test_list_is_read_as_it_was_written(run: Path) -> None:
    found = located(write_list(run, FILES, [3, 4]), str(run)).read()
    assert found.paths == [f"{run}/work/encode/a.npy", f"{run}/work/encode/b.npy"]
    assert found.rows == [3, 4]


def test_name_of_a_list_goes_by_paths_hashes_order_and_rows(run: Path) -> None:
    first, second = FILES
    others = [
        (FILES, []),
        (FILES, [3, 4]),
        ([first, Artefact(second.path, "3", 20)], []),
        ([first, Artefact("work/encode/c.npy", "2", 20)], []),
        ([second, first], []),
    ]
    assert len({write_list(run, files, rows) for files, rows in others}) == len(others)
    assert write_list(run, FILES) == write_list(run, list(FILES))


def test_list_is_written_once_and_again_when_it_is_damaged(run: Path) -> None:
    listing = write_list(run, FILES)
    path = run / LISTS / f"{listing.hash}.json"
    os.utime(path, (1, 1))
    write_list(run, FILES)
    assert path.stat().st_mtime == 1
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a.npy", b"c.npy"))
    with pytest.raises(RunError, match="the list of files is damaged: run the command again"):
        located(listing, str(run)).read()
    write_list(run, FILES)
    assert path.read_bytes() == content
    assert len(list(path.parent.iterdir())) == 1


def test_missing_list_is_named(run: Path) -> None:
    with pytest.raises(RunError, match=r"work/lists/0123\.json: cannot be read: No such file"):
        Listing("0123", str(run)).read()


def test_sweep_keeps_what_steps_name(run: Path) -> None:
    sweep_lists(run, [])
    kept, other = write_list(run, FILES), write_list(run, [])
    (run / LISTS / f"{other.hash}.json.tmp-1").touch()
    sweep_lists(run, [kept])
    assert [path.stem for path in (run / LISTS).iterdir()] == [kept.hash]


def test_step_with_many_files_is_small(run: Path) -> None:
    files = [Artefact(f"work/encode/source-{n:05d}.vectors.npy", f"{n:032x}", 1) for n in range(4000)]
    listing = write_list(run, files, [250_000] * 4000)
    step: Step[object] = Step(str(run), "module:join", "join", "x", Sides(listing, listing), None)
    assert len(pickle.dumps(step)) < 1000
    assert len(located(listing, str(run)).read().paths) == 4000


def test_key_is_computed_once_and_goes_along(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step: Step[object] = Step(str(run), "module:join", "join", "x", None, None)
    key = step.key
    monkeypatch.setattr("pipelines.steps.json_digest", lambda *_, **__: pytest.fail("computed again"))
    assert step.key == key == pickle.loads(pickle.dumps(step)).key
