from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder.vector_file import Block, read_vectors, write_vectors
from mining.errors import RunError, UsageError

FORMS = pytest.mark.parametrize("name", ["v.npy", "v.parquet"])


def blocks(sizes: list[int], dim: int = 3) -> Iterator[Block]:
    chance = np.random.default_rng(0)
    start = 0
    for size in sizes:
        vectors = chance.standard_normal((size, dim)).astype(np.float32)
        valid = np.arange(start, start + size) % 3 != 1
        vectors[~valid] = 0
        yield [f"id {number}" for number in range(start, start + size)], vectors, valid
        start += size


@pytest.fixture(params=["v.npy", "v.parquet"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    write_vectors(path, blocks([4, 3]), dim=3, model_hash="abc")
    return path


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 5), max_size=4),
    name=st.sampled_from(["v.npy", "v.parquet"]),
    dtype=st.sampled_from(["float32", "float16"]),
)
def test_what_is_written_is_read(
    sizes: list[int], name: str, dtype: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("vectors") / name
    report = write_vectors(path, blocks(sizes), dim=3, model_hash="abc", dtype=dtype)
    parts = list(blocks(sizes))
    back = read_vectors(path, dim=3, model_hash="abc")
    assert report.rows == len(back.ids) == sum(sizes)
    assert report.invalid == int((~back.valid).sum())
    assert back.ids == [one for ids, _, _ in parts for one in ids]
    assert back.vectors.dtype == np.dtype(dtype)
    assert back.vectors.shape == (sum(sizes), 3)
    assert back.model_hash == "abc"
    if sizes:
        np.testing.assert_array_equal(back.vectors, np.concatenate([part[1] for part in parts]).astype(dtype))
        np.testing.assert_array_equal(back.valid, np.concatenate([part[2] for part in parts]))


@FORMS
def test_bytes_do_not_depend_on_the_blocks_read_back(name: str, tmp_path: Path) -> None:
    (one, many) = ([9], [2, 3, 4])
    whole, ids = [], []
    for sizes in (one, many):
        path = tmp_path / str(len(sizes)) / name
        path.parent.mkdir()
        write_vectors(path, blocks(sizes), dim=3, model_hash="abc")
        whole.append(np.asarray(read_vectors(path).vectors).tobytes())
        ids.append(read_vectors(path).ids)
    assert whole[0] == whole[1]
    assert ids[0] == ids[1]


def test_npy_is_an_ordinary_numpy_file(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    assert np.load(tmp_path / "v.npy").shape == (4, 3)
    facts = json.loads((tmp_path / "v.npy.json").read_text())
    assert (facts["rows"], facts["dim"], facts["dtype"], facts["normalised"]) == (4, 3, "float32", True)


def test_another_dimension_is_refused(written: Path) -> None:
    with pytest.raises(UsageError, match="dimension 3, but 300 is expected"):
        read_vectors(written, dim=300)


def test_another_model_is_refused(written: Path) -> None:
    with pytest.raises(UsageError, match="of the model abc, but the model in use is xyz"):
        read_vectors(written, model_hash="xyz")


def test_truncated_file_is_refused(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:-10])
    with pytest.raises(UsageError, match="cut short"):
        read_vectors(written)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such vector file"):
        read_vectors(tmp_path / "v.npy")


def test_foreign_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.ones((3, 2), np.float32))
    with pytest.raises(UsageError, match=r"v\.npy\.json .*missing"):
        read_vectors(tmp_path / "v.npy")


def test_raw_floats_are_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    (tmp_path / "v.npy").write_bytes(np.ones(12, np.float32).tobytes())
    with pytest.raises(UsageError, match="not a numpy file"):
        read_vectors(tmp_path / "v.npy")


def test_npy_of_other_rows_than_its_facts_is_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    np.save(tmp_path / "v.npy", np.ones((5, 3), np.float32))
    with pytest.raises(UsageError, match=r"of shape \(5, 3\), but v\.npy\.json says float32 of shape \(4, 3\)"):
        read_vectors(tmp_path / "v.npy")


def test_rows_file_of_another_run_is_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    write_vectors(tmp_path / "w.npy", blocks([5]), dim=3, model_hash="abc")
    (tmp_path / "w.npy.rows.parquet").replace(tmp_path / "v.npy.rows.parquet")
    with pytest.raises(UsageError, match=r"5 rows, but v\.npy has 4"):
        read_vectors(tmp_path / "v.npy")


def test_foreign_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "v.parquet")
    with pytest.raises(UsageError, match="not of vectors"):
        read_vectors(tmp_path / "v.parquet")


def test_other_extension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.npy or \.parquet"):
        write_vectors(tmp_path / "v.raw", blocks([1]), dim=3, model_hash="abc")


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        write_vectors(tmp_path / "absent" / "v.npy", blocks([1]), dim=3, model_hash="abc")


@FORMS
def test_block_of_wrong_shape_leaves_no_file(name: str, tmp_path: Path) -> None:
    faulty = [(["a", "b"], np.ones((3, 3), np.float32), np.ones(2, bool))]
    with pytest.raises(RunError, match="a block of 2 rows"):
        write_vectors(tmp_path / name, faulty, dim=3, model_hash="abc")
    assert list(tmp_path.iterdir()) == []
