"""One array over shards."""

from __future__ import annotations

import ast
import io
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.devices import PARSING
from mining.errors import InputError
from mining.schemas import CANDIDATE
from mining.search.clusters import Clusters
from pipelines.arrays import ShardedArray, ShardFiles, concatenated, open_array
from pipelines.mine import MineResult, run_mine
from pipelines.records import FileList
from pipelines.transforms.clusters import open_clusters
from pipelines.transforms.pairs import _blocks
from tests.conftest import write_task
from tests.pipelines.conftest import config, contents


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_take_equals_indexing_the_whole(sizes: list[int], data: st.DataObject) -> None:
    whole = np.arange(sum(sizes), dtype=np.int64) * 10
    firsts = [0, *np.cumsum(sizes).tolist()[:-1]]
    parts = [whole[first : first + size] for first, size in zip(firsts, sizes, strict=True)]
    rows = np.array(data.draw(st.lists(st.integers(-1, len(whole) - 1), max_size=12)), dtype=np.int64)
    rows = rows if len(whole) else np.full(len(rows), -1, dtype=np.int64)
    expected = [-7 if row < 0 else whole[row] for row in rows]
    assert ShardedArray(parts, firsts, len(whole)).take(rows, fill=-7).tolist() == expected


def test_take_keeps_the_shape_and_whole_rows() -> None:
    whole = np.arange(12.0).reshape(6, 2)
    array = ShardedArray([whole[:4], whole[4:]], [0, 4], 6)
    assert array.take(np.array([[5, 0], [3, 4]])).tolist() == whole[[[5, 0], [3, 4]]].tolist()


def test_more_shards_than_small_integers_can_number() -> None:
    count = (1 << 15) + 2
    parts = [np.array([10 * number]) for number in range(count)]
    rows = np.array([count - 1, 0, 1 << 15, 1])
    assert ShardedArray(parts, range(count), count).take(rows).tolist() == (10 * rows).tolist()


def saved(folder: Path, parts: list[np.ndarray]) -> FileList:
    paths = [str(folder / f"{number}.npy") for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)
    return FileList(paths, [len(part) for part in parts])


def test_arrays_of_files(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(12, 2)
    files = saved(tmp_path, [whole[:5], whole[5:5], whole[5:]])
    assert (files.firsts, files.limits, files.total) == ([0, 5, 5], [0, 5, 5, 12], 12)
    parts = ShardFiles(files, np.float32, (2,))
    assert [part.tolist() for part in parts.all()] == [whole[:5].tolist(), [], whole[5:].tolist()]
    rows = np.array([11, 0, 5, -1, 4])
    expected = [[-1.0, -1.0] if row < 0 else whole[row].tolist() for row in rows]
    assert ShardedArray(parts, files.firsts, files.total).take(rows, fill=-1).tolist() == expected
    found = concatenated(files.paths, np.float32, (2,), [(1, 3), (0, 0), (2, 7)])
    assert found.dtype == np.float32
    assert found.tolist() == [*whole[1:3].tolist(), *whole[7:12].tolist()]


def test_map_of_an_array_is_read_only_and_keeps_no_file_open(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(10))
    before = len(os.listdir("/proc/self/fd"))
    maps = [open_array(str(tmp_path / "a.npy"), np.int64, (10,)) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(array.tolist() == list(range(10)) for array in maps)
    with pytest.raises(ValueError, match="read-only"):
        maps[0][0] = 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.arange(3, dtype=np.int32), "holds int32 .3,., expected int64 .None,."),
        (np.zeros((3, 1), dtype=np.int64), "holds int64 .3, 1., expected int64 .None,."),
        (np.asfortranarray(np.zeros((3, 2), dtype=np.int64)), "not a readable array: in Fortran order"),
        (np.array([None]), "not a readable array"),
        (b"", "not a readable array"),
        (b"\x93NUMPY", "not a readable array"),
        (b"something else altogether", "not a readable array"),
        (b"\x93NUMPY\x02\x00" + b" " * 100, "not a readable array: another version"),
        (None, "not a readable array"),
    ],
)
def test_array_that_is_none_or_another_is_named(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "a.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(InputError, match=rf"a\.npy: {message}"):
        open_array(str(path), np.int64, (None,))


def test_array_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(1000))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"a\.npy: not a readable array"):
        open_array(str(path), np.int64, (None,))


def test_headers_are_parsed_by_one_thread_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, alone = ast.literal_eval, []

    def watched(text: str) -> object:
        alone.append(PARSING.locked())
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", watched)
    np.save(tmp_path / "a.npy", np.arange(3))
    open_array(str(tmp_path / "a.npy"), np.int64, (3,))
    np.savez(tmp_path / "clusters.npz", **dict.fromkeys(Clusters._fields, np.arange(3)))
    open_clusters(str(tmp_path / "clusters.npz"))
    assert alone == [True] * (1 + len(Clusters._fields))
    assert not PARSING.locked()


@pytest.fixture
def few_files() -> Callable[[int], None]:
    """Lets this process open only so many files more; more than that again when the test has
    ended."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit(more: int) -> None:
        # A new file gets the lowest free number, and the limit is on numbers.
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(("method", "own"), [("clusters", {"nlist": 6, "nprobe": 2}), ("faiss", {"index": "Flat"})])
def test_shards_may_be_more_than_files_that_may_be_open(
    tmp_path: Path, tiny_model: Path, few_files: Callable[[int], None], method: str, own: dict[str, Any]
) -> None:
    task = write_task(tmp_path, rows=60, aligned=30)
    search = {"search__method": method, **{f"search__{key}": value for key, value in own.items()}}

    def mined(name: str, rows: int) -> MineResult:
        return run_mine(config(task, tiny_model, tmp_path / name, shard__rows=rows, **search), quiet=True)

    whole = mined("one", 1000)
    few_files(20)
    assert contents(mined("many", 4).folder) == contents(whole.folder)


def test_matched_pairs_are_copied_in_bounded_blocks() -> None:
    pairs = np.zeros(70_000, CANDIDATE)
    pairs["source"] = np.arange(70_000)
    blocks = list(_blocks(io.BytesIO(pairs.tobytes())))
    assert [len(block) for block in blocks] == [65_536, 4_464]
    assert np.array_equal(np.concatenate(blocks), pairs)
