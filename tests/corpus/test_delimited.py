from __future__ import annotations

import pytest

from mining.corpus import Row
from mining.corpus.lines import MIN_LINE_LIMIT
from mining.errors import InputError, UsageError

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
