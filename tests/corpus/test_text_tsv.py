"""Plain text and TSV, and the further columns of a bitext."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.corpus import BitextSpec, Row, read_rows
from mining.corpus.lines import MIN_LINE_LIMIT
from mining.errors import InputError, UsageError


def test_rows_have_generated_ids_and_keep_tabs(write, read):
    assert read(write("a.txt", "a\tb\n c \n")) == [
        Row("a.txt:1", ("a\tb",), "a.txt", 1, None),
        Row("a.txt:2", (" c ",), "a.txt", 2, None),
    ]


def test_aligned_files_give_pairs(write, read):
    paths = [write("a.en", "one\n\nthree\n"), write("b.de.gz", "eins\nzwei\ndrei")]
    assert read(paths, bitext=True, format="text") == [
        Row("a.en:1", ("one", "eins"), "a.en", 1, None),
        Row("a.en:2", ("", "zwei"), "a.en", 2, "blank"),
        Row("a.en:3", ("three", "drei"), "a.en", 3, None),
    ]


def test_order_of_aligned_files_is_that_of_the_paths(write, read):
    (row,) = read([write("z.txt", "source\n"), write("a.txt", "target\n")], bitext=True)
    assert row.texts == ("source", "target")


@pytest.mark.parametrize(("source", "target", "counts"), [(3, 5, "3 lines.* has 5"), (5, 3, "5 lines.* has 3")])
def test_unequal_line_counts_are_an_error(write, read, source, target, counts):
    paths = [write("s.txt", "a\n" * source), write("t.txt", "b\n" * target)]
    with pytest.raises(InputError, match=rf"s\.txt has {counts}: .*aligned line by line"):
        read(paths, bitext=True)


def test_faults_on_either_side_of_a_pair(write, read):
    paths = [write("s.txt", b"a\xff\nb\nccccc\n"), write("t.txt", b"a\nb\xff\nc\n")]
    rows = read(paths, bitext=True, invalid_utf8="skip", max_chars=4)
    assert [row.reason for row in rows] == ["invalid_utf8", "invalid_utf8", "too_long"]
    with pytest.raises(InputError, match=r"s\.txt, line 1: invalid UTF-8"):
        read(paths, bitext=True)


COLUMNS = ["id", "text"]


def test_bucc_layout(write, read):
    rows = read(write("de-en.training.de", "de-1\tHallo\nde-2\tWelt\n"), columns=COLUMNS)
    assert rows == [
        Row("de-1", ("Hallo",), "de-en.training.de", 1, None),
        Row("de-2", ("Welt",), "de-en.training.de", 2, None),
    ]


def test_quotes_and_backslashes_are_text(write, texts):
    cells = ['"a', 'b"', '""', "c\\t", "'d"]
    path = write("a.tsv", "".join(f"{i}\t{cell}\n" for i, cell in enumerate(cells)))
    assert texts(path, columns=COLUMNS) == cells


def test_other_names_and_more_columns(write, read):
    path = write("a.tsv", "x\tone\teins\tnews\n")
    columns = ["domain", "en", "de", "key"]
    assert read(path, columns=columns, source="de", target="en", id="key") == [
        Row("news", ("eins", "one"), "a.tsv", 1, None)
    ]
    assert read(path, columns=columns, text="en")[0].id == "a.tsv:1"


@pytest.mark.parametrize(("line", "found"), [("a", "1 column found"), ("1\ta\tb", "3 columns found")])
def test_wrong_number_of_tabs_names_file_line_and_counts(write, read, line, found):
    path = write("a.tsv", f"0\tgood\n{line}\n2\tgood\n")
    with pytest.raises(InputError, match=rf"a\.tsv, line 2: {found}, 2 declared \(id, text\).*on_bad_row: skip"):
        read(path, columns=COLUMNS)


def test_wrong_number_of_tabs_skipped(write, read):
    rows = read(write("a.tsv", "0\tgood\n1\tbad\tx\nbad\n"), columns=COLUMNS, on_bad_row="skip")
    assert rows[1:] == [
        Row("a.tsv:2", ("bad",), "a.tsv", 2, "bad_row"),
        Row("a.tsv:3", ("",), "a.tsv", 3, "bad_row"),
    ]


@pytest.mark.parametrize("line", ["", "  ", "\t", " \t ", "\r"])
def test_blank_line_is_blank_whatever_its_tabs(write, read, line):
    rows = read(write("a.tsv", f"0\tgood\n{line}\n"), columns=COLUMNS)
    assert rows[1] == Row("a.tsv:2", ("",), "a.tsv", 2, "blank")


def test_blank_text_keeps_the_id_of_its_row(write, read):
    assert read(write("a.tsv", "x\t \n"), columns=COLUMNS) == [Row("x", (" ",), "a.tsv", 1, "blank")]


def test_empty_id_is_a_bad_row(write, read):
    path = write("a.tsv", "\tgood\n")
    with pytest.raises(InputError, match=r"a\.tsv, line 1: the id in column 'id' is empty"):
        read(path, columns=COLUMNS)
    assert read(path, columns=COLUMNS, on_bad_row="skip") == [Row("a.tsv:1", ("good",), "a.tsv", 1, "bad_row")]


def test_columns_must_be_declared(write, read):
    with pytest.raises(UsageError, match=r"a\.tsv: declare the columns .*columns: \[id, text\]"):
        read(write("a.tsv", "0\ta\n"))


@pytest.mark.parametrize("settings", [{"text": "sentence"}, {"id": "sentence"}, {"source": "id", "target": "sentence"}])
def test_unknown_column_lists_the_declared_ones(write, read, settings):
    with pytest.raises(UsageError, match=r"no column 'sentence' is declared; declared: id, text"):
        read(write("a.tsv", "0\ta\n"), columns=COLUMNS, **settings)


def test_invalid_utf8(write, read):
    path = write("a.tsv", b"x\ta\xff\n\xff\tb\ny\tc\n")
    rows = read(path, columns=COLUMNS, invalid_utf8="skip")
    assert [(row.id, row.reason) for row in rows] == [("x", "invalid_utf8"), ("a.tsv:2", "invalid_utf8"), ("y", None)]
    assert read(path, columns=COLUMNS, invalid_utf8="replace")[0].texts == ("a\ufffd",)


def test_line_beyond_the_limit_keeps_its_id(write, read):
    path = write("a.tsv", f"x\t{'a' * (MIN_LINE_LIMIT + 1)}\n{'y' * 9000}\t{'b' * MIN_LINE_LIMIT}\nz\tc\n")
    rows = read(path, columns=COLUMNS)
    assert [(row.id, row.reason) for row in rows] == [("x", "too_long"), ("a.tsv:2", "too_long"), ("z", None)]
    assert rows[0].texts == ("a" * 200,)


def test_line_beyond_the_limit_must_have_its_columns(write, read):
    path = write("a.tsv", f"x\t{'a' * MIN_LINE_LIMIT}\tb\n")
    with pytest.raises(InputError, match="line 1: 3 columns found"):
        read(path, columns=COLUMNS)


def test_only_texts_count_for_max_chars(write, read):
    path = write("a.tsv", f"x\t{'a' * 50}\tb\n")
    assert read(path, columns=["id", "note", "text"], max_chars=10)[0].reason is None


FIELDS = {"domain": "genre", "score": "cosine"}
TSV = {"columns": ["source", "genre", "cosine", "target"], **FIELDS}


def extras(path: str, **spec: Any) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(row.reason, row.extra) for row in read_rows(BitextSpec(path=path, **spec))]


def test_tsv(write: Callable[..., str]) -> None:
    path = write("a.tsv.gz", "a\tnews\t0.5\tb\n\tui\t\tb\nshort\n")
    found = extras(path, **TSV, on_bad_row="skip")
    assert found == [(None, ("news", "0.5")), ("blank", ("ui", "")), ("bad_row", ())]
    assert next(extra for _, extra in extras(path, **{**TSV, "domain": None}, on_bad_row="skip")) == ("0.5",)


def test_json_lines(write: Callable[..., str]) -> None:
    rows: list[dict[str, Any]] = [
        {"source": "a", "target": "b", "genre": "news", "cosine": 0.25},
        {"source": "a\ud800", "target": "b", "genre": 7, "cosine": 1},
        {"source": "a", "target": "b", "genre": "news"},
        {"source": "a", "target": "b", "genre": True, "cosine": 1},
    ]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = extras(path, **FIELDS, on_bad_row="skip", invalid_utf8="replace")
    assert found == [(None, ("news", "0.25")), (None, ("7", "1")), ("bad_row", ()), ("bad_row", ())]
    with pytest.raises(InputError, match=r"line 3: field 'cosine' is missing"):
        extras(path, **FIELDS, invalid_utf8="replace")


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {"source": ["a", "c"], "target": ["b", None], "genre": ["news", None], "cosine": [0.5, 1.0]}
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays["genre"] = arrays["genre"].dictionary_encode()
    pq.write_table(pa.table(arrays), path)
    assert extras(str(path), **FIELDS) == [(None, ("news", "0.5")), ("blank", ("", "1.0"))]
    with pytest.raises(UsageError, match="no column 'topic'"):
        extras(str(path), domain="topic")
    with pytest.raises(UsageError, match="column 'cosine' has the type double, not string"):
        extras(str(path), source="cosine", domain="genre")


def test_formats_without_columns(write: Callable[..., str]) -> None:
    write("a.txt", "a\n")
    paths = [write("a.txt", "a\n"), write("b.txt", "b\n")]
    with pytest.raises(UsageError, match=r"text has no column 'genre': leave out `domain`"):
        list(read_rows(BitextSpec(path=paths, domain="genre")))
    with pytest.raises(UsageError, match="no column 'genre' is declared"):
        list(read_rows(BitextSpec(path=write("a.tsv", "a\tb\n"), columns=["source", "target"], domain="genre")))
