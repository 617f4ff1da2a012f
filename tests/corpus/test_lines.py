"""The rules for lines, seen through plain text."""

from __future__ import annotations

import tracemalloc

import pytest

from mining.corpus import CorpusSpec, Row, read_rows
from mining.corpus.compression import PLAIN_PIECE
from mining.corpus.lines import MIN_LINE_LIMIT
from mining.errors import InputError


def test_only_a_line_feed_ends_a_row(write, texts):
    odd = ["a\u2028b", "c\u0085d", "e\vf", "g\fh", "i\rj", "k\x1cl", "m\u2029n"]
    assert texts(write("a.txt", "\n".join(odd))) == odd


def test_one_trailing_carriage_return_is_stripped(write, texts):
    assert texts(write("a.txt", "a\r\nb\r\r\nc\r")) == ["a", "b\r", "c"]


def test_byte_order_mark_at_the_start_is_removed(write, texts):
    assert texts(write("a.txt", "\ufeffa\n\ufeffb\n")) == ["a", "\ufeffb"]


def test_file_of_only_a_byte_order_mark_has_no_rows(write, read):
    assert read(write("a.txt", "\ufeff")) == []


@pytest.mark.parametrize("content", ["a\nb", "a\nb\n"])
def test_last_line_needs_no_line_feed(write, texts, content):
    assert texts(write("a.txt", content)) == ["a", "b"]


def test_empty_file_has_no_rows(write, read):
    assert read(write("a.txt", "")) == []


def test_single_line_feed_is_one_blank_row(write, read):
    assert read(write("a.txt", "\n")) == [Row("a.txt:1", ("",), "a.txt", 1, "blank")]


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u2003", "\r", "\u2028"])
def test_blank_line_is_a_row_with_its_own_id(write, read, blank):
    rows = read(write("a.txt", f"a\n{blank}\nb\n"))
    assert [(row.id, row.reason) for row in rows] == [("a.txt:1", None), ("a.txt:2", "blank"), ("a.txt:3", None)]


def test_invalid_utf8_strict_names_file_and_line(write, read):
    path = write("a.txt", b"a\nb\nc\xffd\n")
    with pytest.raises(InputError, match=r"a\.txt, line 3: invalid UTF-8 \(byte 0xff at byte 2.*invalid_utf8: replace"):
        read(path)


def test_invalid_utf8_strict_far_into_the_file(write, read):
    path = write("a.txt", b"a\n" * 600_000 + b"\xc3\n")
    with pytest.raises(InputError, match="line 600001: invalid UTF-8"):
        read(path)


def test_utf16_is_recognised_in_the_message(write, read):
    path = write("a.txt", "a\nb".encode("utf-16"))
    with pytest.raises(InputError, match=r"line 1: invalid UTF-8 \(it looks like UTF-16"):
        read(path)


def test_invalid_utf8_replace(write, texts):
    path = write("a.txt", b"a\xff\nb\xe2\x82\nc\n")
    assert texts(path, invalid_utf8="replace") == ["a\ufffd", "b\ufffd", "c"]


def test_invalid_utf8_skip(write, read):
    rows = read(write("a.txt", b"a\nb\xe2\x82\nc\n"), invalid_utf8="skip")
    assert [(row.id, row.texts[0], row.reason) for row in rows] == [
        ("a.txt:1", "a", None),
        ("a.txt:2", "b\ufffd", "invalid_utf8"),
        ("a.txt:3", "c", None),
    ]


def test_max_chars_counts_characters_not_bytes(write, read):
    rows = read(write("a.txt", "äöü\näöüß\n"), max_chars=3)
    assert [row.reason for row in rows] == [None, "too_long"]


def test_dropped_row_keeps_a_preview_of_200_characters(write, read):
    (row,) = read(write("a.txt", "ab" * 500), max_chars=300)
    assert row.texts == ("ab" * 100,)


@pytest.mark.parametrize("extension", ["", ".gz", ".zst"])
@pytest.mark.parametrize("end", ["\n", "\nlast\n", ""])
def test_line_of_20_mb_is_dropped_in_bounded_memory(write, extension, end):
    size = 20_000_000
    path = write(f"a.txt{extension}", "first\n" + "x" * size + end)
    tracemalloc.start()
    rows = list(read_rows(CorpusSpec(path=path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(row.line, row.reason) for row in rows[:2]] == [(1, None), (2, "too_long")]
    assert [row.texts[0] for row in rows[2:]] == (["last"] if "last" in end else [])
    assert rows[1].texts == ("x" * 200,)
    assert peak < size * 0.6


@pytest.mark.parametrize("size", [MIN_LINE_LIMIT - 1, MIN_LINE_LIMIT, MIN_LINE_LIMIT + 1, MIN_LINE_LIMIT + PLAIN_PIECE])
@pytest.mark.parametrize(("policy", "reason"), [("replace", "too_long"), ("skip", "invalid_utf8")])
def test_long_line_is_still_checked_for_utf8(write, read, size, policy, reason):
    path = write("a.txt", b"x" * (size - 1) + b"\xff\nb\n")
    assert [row.reason for row in read(path, invalid_utf8=policy)] == [reason, None]
    with pytest.raises(InputError, match="line 1: invalid UTF-8"):
        read(path)


def test_character_across_pieces_is_whole(write, texts):
    lines = ["a" * (PLAIN_PIECE - 1) + "ü", "€" * PLAIN_PIECE, "end"]
    assert texts(write("a.txt", "\n".join(lines)), max_chars=2 * PLAIN_PIECE) == lines


def test_many_lines_over_several_pieces(write, texts):
    lines = [f"line {i}" for i in range(300_000)]
    assert texts(write("a.txt", "\n".join(lines) + "\n")) == lines
