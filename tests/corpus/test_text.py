from __future__ import annotations

import pytest

from mining.corpus import Row
from mining.errors import InputError


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
