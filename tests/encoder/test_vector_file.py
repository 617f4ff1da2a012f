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

from mining.encoder.vector_file import METADATA_KEY, Block, read_vectors, write_vectors
from mining.errors import RunError, UsageError

FORMS = pytest.mark.parametrize("name", ["v.npy", "v.parquet"])


def blocks(sizes: list[int], dim: int = 3) -> Iterator[Block]:
    chance = np.random.default_rng(0)
    start = 0
    for size in sizes:
        vectors = chance.standard_normal((size, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
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


def tamper(path: Path, row: int, value: float | list[float]) -> None:
    """Change a row of a vector file, and nothing else."""
    if path.suffix == ".npy":
        matrix = np.load(path)
        matrix[row] = value
        np.save(path, matrix)
        return
    with pq.ParquetFile(path) as file:
        table = file.read()
        metadata = {METADATA_KEY: file.metadata.metadata[METADATA_KEY]}
    rows = table["vector"].to_pylist()
    rows[row] = np.broadcast_to(np.array(value, np.float32), 3).tolist()
    table = table.set_column(1, table.schema.field("vector"), pa.array(rows, table.schema.field("vector").type))
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("row", "value", "message"),
    [
        (0, [np.nan, 1, 0], r"row 1 \(id 'id 0'\) is not finite"),
        (3, [0, np.inf, 0], r"row 4 \(id 'id 3'\) is not finite"),
        (6, [2, 0, 0], r"row 7 \(id 'id 6'\) has length 2, not 1"),
        (5, [0.5, 0.5, 0], r"row 6 \(id 'id 5'\) has length 0\.7071, not 1"),
        (2, 0, r"row 3 \(id 'id 2'\) is all zeros but marked valid"),
        (1, [0, 1, 0], r"row 2 \(id 'id 1'\) is marked invalid but not all zeros"),
        (1, [0, np.nan, 0], r"row 2 \(id 'id 1'\) is not finite"),
    ],
)
def test_a_row_that_is_no_unit_vector_is_named(
    written: Path, row: int, value: float | list[float], message: str
) -> None:
    tamper(written, 0, read_vectors(written).vectors[0].tolist())
    read_vectors(written)
    tamper(written, row, value)
    with pytest.raises(UsageError, match=f"{written.name}: {message}"):
        read_vectors(written)


def test_a_fault_behind_the_first_block_is_found(tmp_path: Path) -> None:
    vectors, valid = np.tile(np.array([1, 0, 0], np.float16), (9000, 1)), np.ones(9000, bool)
    write_vectors(tmp_path / "v.npy", [([str(i) for i in range(9000)], vectors, valid)], dim=3, model_hash="a")
    assert read_vectors(tmp_path / "v.npy").valid.all()
    tamper(tmp_path / "v.npy", 8999, [1, 0.2, 0])
    with pytest.raises(UsageError, match=r"row 9000 \(id '8999'\) has length 1\.02"):
        read_vectors(tmp_path / "v.npy")


def columns_of(**changed: pa.Array) -> dict[str, pa.Array]:
    return {"id": pa.array(["a", "b", "c", "d"]), "valid": pa.array([True, False, True, True]), **changed}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (columns_of(valid=pa.array([1, 0, 1, 1])), "column 'valid' is int64, not bool"),
        (columns_of(valid=pa.array([True, None, True, True])), "column 'valid' has nulls"),
        (columns_of(id=pa.array(["a", None, "c", "d"])), "column 'id' has nulls"),
        ({"valid": columns_of()["valid"]}, "column 'id' is missing"),
    ],
)
def test_companion_of_other_columns_is_refused(tmp_path: Path, columns: dict[str, pa.Array], message: str) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    pq.write_table(pa.table(columns), tmp_path / "v.npy.rows.parquet")
    with pytest.raises(UsageError, match=f"{message}; encode again"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize(
    "change", [{"rows": "4"}, {"dim": 0}, {"dtype": ["float32"]}, {"normalised": 1}, None, b"\xff"]
)
def test_damaged_facts_are_refused(tmp_path: Path, change: dict[str, object] | bytes | None) -> None:
    write_vectors(tmp_path / "v.npy", blocks([4]), dim=3, model_hash="abc")
    facts = tmp_path / "v.npy.json"
    text = json.dumps({**json.loads(facts.read_text()), **change} if isinstance(change, dict) else change and "")
    facts.write_bytes(change if isinstance(change, bytes) else text.encode())
    with pytest.raises(UsageError, match=r"v\.npy\.json: .*; encode again"):
        read_vectors(tmp_path / "v.npy")


def test_vectors_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    write_vectors(path, blocks([4]), dim=3, model_hash="abc")
    with pq.ParquetFile(path) as file:
        table = file.read()
        metadata = {METADATA_KEY: file.metadata.metadata[METADATA_KEY]}
    for kind, message in (
        (pa.list_(pa.float64(), 3), r"column 'vector' is fixed_size_list<element: double"),
        (pa.list_(pa.float32()), r"column 'vector' is list<"),
    ):
        other = pa.array(table["vector"].to_pylist(), kind)
        pq.write_table(table.set_column(1, "vector", other).replace_schema_metadata(metadata), path)
        with pytest.raises(UsageError, match=message):
            read_vectors(path)
    holes = pa.array([[1.0, None, 0.0]] * 4, table.schema.field("vector").type)
    pq.write_table(table.set_column(1, "vector", holes).replace_schema_metadata(metadata), path)
    with pytest.raises(UsageError, match="column 'vector' has nulls; encode again"):
        read_vectors(path)
