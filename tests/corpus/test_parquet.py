from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.corpus import CorpusSpec, Row, read_corpus
from mining.corpus.formats import parquet
from mining.corpus.formats.parquet import BATCH_ROWS
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


KINDS = [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_text(table, read, kind):
    column = pa.array(["a", None, "a"]).cast(kind)
    assert [row.texts[0] for row in read(table(text=column))] == ["a", "", "a"]
    with pytest.raises(InputError, match="row 2: the id in column 'id' is empty"):
        read(table(id=column, text=["x", "y", "z"]))
    assert [row.id for row in read(table(id=column.slice(2), text=["z"]))] == ["a"]


def test_a_column_that_stands_twice(tmp_path, read):
    path = str(tmp_path / "a.parquet")
    columns = [pa.array([text]) for text in ("a", "b", "c")]
    pq.write_table(pa.Table.from_arrays(columns, names=["text", "other", "text"]), path)
    with pytest.raises(UsageError, match=r"a\.parquet: column 'text' stands twice"):
        read(path)
    assert [row.texts[0] for row in read(path, text="other")] == ["b"]


def test_columns_of_nothing(table, read):
    assert [row.reason for row in read(table(text=pa.nulls(2)))] == ["blank", "blank"]
    (row,) = read(table(a=pa.nulls(1), b=["x"], sim=pa.nulls(1)), source="a", target="b", score="sim")
    assert (row.texts, row.reason, row.extra) == (("", "x"), "blank", ("",))


@pytest.mark.parametrize("ids", [pa.nulls(2), [1.0, 2.0], [True, False], [["a"], ["b"]], [{"a": 1}, {"a": 2}]])
def test_a_column_of_ids_that_holds_none(table, read, ids):
    path = table(id=ids, text=["a", "b"])
    with pytest.raises(UsageError, match=r"a\.parquet: column 'id' (has the type|is a group).*"):
        read(path)
    assert [row.id for row in read(path, id="")] == ["a.parquet:1", "a.parquet:2"]


def test_the_mend_for_a_column_that_happens_to_be_called_id(table, read):
    with pytest.raises(UsageError, match=r"has the type double, not string or integer: .*set id: '' for generated ids"):
        read(table(id=[1.0], text=["a"]))
    with pytest.raises(InputError, match=r"row 2: the id in column 'id' is empty.*set id: '' for generated ids"):
        read(table(id=pa.array([7, None]), text=["a", "b"]))


def test_fields_of_structs_by_dotted_names(table, read):
    values = [{"en": "A house.", "de": "Ein Haus."}, None, {"en": None, "de": "Hund"}, {"en": "tea", "de": "Tee"}]
    path = table(meta=[{"key": {"id": f"r{i}"}} for i in range(4)], translation=values)
    rows = read(path, source="translation.en", target="translation.de", id="meta.key.id")
    assert [(row.id, row.texts, row.reason) for row in rows] == [
        ("r0", ("A house.", "Ein Haus."), None),
        ("r1", ("", ""), "blank"),
        ("r2", ("", "Hund"), "blank"),
        ("r3", ("tea", "Tee"), None),
    ]
    assert [row.texts[0] for row in read(path, text="translation.de")] == ["Ein Haus.", "", "Hund", "Tee"]


def test_a_column_with_a_dot_in_its_name_comes_first(table, texts):
    assert texts(table(**{"t.en": ["whole"], "t": [{"en": "part"}]}), text="t.en") == ["whole"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t", r"column 't' is a group of columns: name one of t\.en, t\.de"),
        ("t.fr", r"no column 't\.fr'; the columns are: t, l"),
        ("t.en.x", r"no column 't\.en\.x'"),
        ("l", "column 'l' has the type list<.*not string"),
    ],
)
def test_nested_columns_that_are_no_texts(table, read, text, message):
    path = table(t=[{"en": "a", "de": "b"}], l=[["a"]])
    with pytest.raises(UsageError, match=message):
        read(path, text=text)


def test_many_columns_are_not_all_listed(table, read):
    with pytest.raises(UsageError) as caught:
        read(table(**{f"column{i}": ["a"] for i in range(1000)}))
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize("groups", [0, 1])
def test_no_rows(tmp_path, read, groups):
    table = pa.table({"text": pa.array([], pa.string())})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for _ in range(groups):
            writer.write_table(table)
    assert read(str(tmp_path / "a.parquet")) == []


def test_damage_in_the_data_is_one_line(table, read):
    path = Path(table(text=[f"text {i * 7919}" for i in range(20_000)]))
    data = bytearray(path.read_bytes())
    data[2000:60_000] = b"\xff" * 58_000
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet, after row \d+: not a sound Parquet file") as caught:
        read(str(path))
    assert "\n" not in str(caught.value)


def test_much_text_comes_in_smaller_tables(table, monkeypatch):
    path = table(id=[f"r{i}" for i in range(9)], text=["a" * i for i in range(9)])
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 40)
    tables = list(read_corpus(CorpusSpec(path=path)))
    assert len(tables) > 3
    assert [row for part in tables for row in part["id"].to_pylist()] == [f"r{i}" for i in range(9)]
    assert [row for part in tables for row in part["line"].to_pylist()] == list(range(1, 10))


def test_a_character_over_two_values_is_invalid_in_both(table, read):
    rows = read(table(text=pa.array([b"a\xc3", b"\xa4b", "ä".encode()])), invalid_utf8="replace")
    assert [(row.texts[0], row.replaced) for row in rows] == [("a\ufffd", True), ("\ufffdb", True), ("ä", False)]


def test_labels_of_pairs(table, read):
    path = table(a=["x", "y"], b=["z", "w"], news=["n", None], sim=[0.5, 1.0])
    rows = read(path, source="a", target="b", domain="news", score="sim")
    assert [row.extra for row in rows] == [("n", "0.5"), ("", "1.0")]


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
    assert [row.replaced for row in read(path, invalid_utf8="replace")] == [False, True, False]
    skipped = read(path, invalid_utf8="skip")
    assert [(row.id, row.reason) for row in skipped] == [("x", None), ("y", "invalid_utf8"), ("z", None)]


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "encrypted"])
def test_damaged_file_is_an_input_error(table, read, damage):
    path = Path(table(text=["a"] * 1000))
    data = path.read_bytes()
    damaged = {"truncated": data[:-20], "empty": b"", "text": b"text\n", "encrypted": data[:-4] + b"PARE"}
    path.write_bytes(damaged[damage])
    with pytest.raises(InputError, match=r"a\.parquet, after row 0: not a sound Parquet file"):
        read(str(path))


def test_too_long(table, read):
    assert read(table(text=["abc", "abcd"]), max_chars=3)[1].reason == "too_long"
