from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.corpus import Row
from mining.corpus.parquet import BATCH_ROWS
from mining.errors import InputError, UsageError


@pytest.fixture
def table(tmp_path: Path):
    def table(**columns) -> str:
        path = str(tmp_path / "a.parquet")
        pq.write_table(pa.table(columns), path)
        return path

    return table


def test_rows_null_is_blank(table, read):
    assert read(table(id=["x", "y", "z"], text=["a\nb", None, " "])) == [
        Row("x", ("a\nb",), "a.parquet", 1, None),
        Row("y", ("",), "a.parquet", 2, "blank"),
        Row("z", (" ",), "a.parquet", 3, "blank"),
    ]


def test_generated_ids_run_through_batches(table, read):
    n = 2 * BATCH_ROWS + 1
    rows = read(table(text=[f"text {i}" for i in range(n)]))
    assert [row.id for row in rows] == [f"a.parquet:{i + 1}" for i in range(n)]
    assert rows[-1].texts == (f"text {n - 1}",)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()])
def test_kinds_of_text(table, texts, kind):
    assert texts(table(text=pa.array(["a", "b", "a"]).cast(kind))) == ["a", "b", "a"]


def test_integer_ids(table, read):
    assert [row.id for row in read(table(key=[7, 8], text=["a", "b"]), id="key")] == ["7", "8"]


@pytest.mark.parametrize("missing", ["", " ", None])
def test_empty_id_is_a_bad_row(table, read, missing):
    path = table(id=["x", missing], text=["a", "b"])
    with pytest.raises(InputError, match=r"a\.parquet, row 2: the id in column 'id' is empty"):
        read(path)
    assert read(path, on_bad_row="skip")[1] == Row("a.parquet:2", ("b",), "a.parquet", 2, "bad_row")


def test_missing_column_lists_those_there_are(table, read):
    path = table(key=["x"], sentence=["a"])
    with pytest.raises(UsageError, match=r"a\.parquet: no column 'text'; the columns are: key, sentence"):
        read(path)
    with pytest.raises(UsageError, match="no column 'id'"):
        read(path, text="sentence", id="id")


def test_column_of_another_type(table, read):
    with pytest.raises(UsageError, match="column 'text' has the type double, not string"):
        read(table(text=[0.5]))


def test_pairs(table, read):
    assert read(table(en=["a"], de=["b"]), source="de", target="en")[0].texts == ("b", "a")


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_invalid_utf8(table, read, kind):
    bad = pa.Array.from_buffers(kind, 3, pa.array([b"a", b"b\xff", b"c"]).buffers())
    path = table(id=["x", "y", "z"], text=bad)
    with pytest.raises(InputError, match=r"a\.parquet, row 2: invalid UTF-8"):
        read(path)
    assert [row.texts[0] for row in read(path, invalid_utf8="replace")] == ["a", "b\ufffd", "c"]
    skipped = read(path, invalid_utf8="skip")
    assert [(row.id, row.reason) for row in skipped] == [("x", None), ("y", "invalid_utf8"), ("z", None)]


@pytest.mark.parametrize("damage", ["truncated", "empty", "text"])
def test_damaged_file_is_an_input_error(table, read, damage):
    path = Path(table(text=["a"] * 1000))
    path.write_bytes({"truncated": path.read_bytes()[:-20], "empty": b"", "text": b"text\n"}[damage])
    with pytest.raises(InputError, match=r"a\.parquet, after row 0: not a sound Parquet file"):
        read(str(path))


def test_too_long(table, read):
    assert read(table(text=["abc", "abcd"]), max_chars=3)[1].reason == "too_long"
