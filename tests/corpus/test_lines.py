"""Lines of files, and what is no text in UTF-8."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc

import pytest
import zstandard

from mining.corpus import CorpusSpec, Row, read_rows
from mining.corpus.compression import PLAIN_PIECE
from mining.corpus.lines import HEAD, MIN_LINE_LIMIT, foreign, text_encoding
from mining.errors import InputError


def test_only_a_line_feed_ends_a_row(write, texts):
    odd = ["a\u2028b", "c\u0085d", "e\vf", "g\fh", "i\rj", "k\x1cl", "m\u2029n"]
    assert texts(write("a.txt", "\n".join(odd))) == odd


def test_one_trailing_carriage_return_is_stripped(write, texts):
    assert texts(write("a.txt", "a\r\nb\r\r\nc\r")) == ["a", "b\r", "c"]


@pytest.mark.parametrize("extension", ["", ".gz", ".zst"])
def test_byte_order_marks_at_the_start_of_lines_are_removed(write, texts, extension):
    lines = "\ufeffa\n\ufeff\ufeffb\r\nc\ufeffd\n\ufeff\n \ufeffe\n"
    assert texts(write(f"a.txt{extension}", lines)) == ["a", "b", "c\ufeffd", "", " \ufeffe"]


def test_byte_order_marks_at_the_start_of_cells_are_removed(write, read):
    path = write("a.tsv", "\ufeff1\t\ufeffa\n2\tb\ufeff\n\ufeff\ufeff3\t\ufeff\n")
    rows = read(path, columns=["id", "text"])
    assert [(row.id, row.texts[0], row.reason) for row in rows] == [
        ("1", "a", None),
        ("2", "b\ufeff", None),
        ("3", "", "blank"),
    ]


def test_byte_order_marks_at_the_start_of_lines_of_json(write, read):
    path = write("a.jsonl", '\ufeff{"id": 1, "text": "\ufeffa"}\n\ufeff{"id": 2, "text": "b"}\n\ufeff\n')
    assert [(row.id, row.texts[0]) for row in read(path)] == [("1", "\ufeffa"), ("2", "b"), ("a.jsonl:3", "")]


def test_byte_order_marks_are_removed_beside_faulty_lines(write, read):
    path = write("a.txt", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\xff\n\xef\xbb\xbfc\n")
    for policy, second in (("replace", None), ("skip", "invalid_utf8")):
        rows = read(path, invalid_utf8=policy)
        assert [(row.texts[0], row.reason) for row in rows] == [("a", None), ("b\ufffd", second), ("c", None)]


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


WIDE = ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"]
LANGUAGES = ["The house.\nI like tea.\n", "one line, no end", "Ein Häuschen.\nGrüße!", "Дом стар.\nЯ пью чай.\n"]
LANGUAGES += [
    "ผมชอบชา\nบ้านเก่า\n",
    "這房子很舊。\n我喜歡茶。\n",
    "\n\nlate\n",
    "घर पुराना है।\nमुझे चाय पसंद है।\n",
    "これはペンです。\n",
    "The house.\r\nI like tea.\r\n",
]


@pytest.mark.parametrize("text", LANGUAGES)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", WIDE)
def test_utf16_and_utf32_are_recognised(text, mark, encoding):
    for data in ((mark + text).encode(encoding), (mark + text * 2000).encode(encoding)):
        assert str(foreign(data[:HEAD])).startswith(f"it looks like {encoding}: convert it")
        assert foreign((text * 2000).encode()[:HEAD]) is None


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl", "a.txt.gz"])
def test_utf16_and_utf32_are_errors_whatever_the_policy(write, read, encoding, name):
    path = write(name, "The house is old.\nI like tea.\n".encode(encoding))
    rules = {"columns": ["text"] if name == "a.tsv" else None, "on_bad_row": "skip"}
    for policy in ("strict", "replace", "skip"):
        with pytest.raises(InputError, match=rf"{name}: it looks like {encoding}: convert it .*iconv -f {encoding}"):
            read(path, invalid_utf8=policy, **rules)


@pytest.mark.parametrize(
    "data", [b"a\0b\nc\n", b"\0\n\0\0\n", b"one\0two\0three\0", b"ends\0\nso\0\ngoes on\0\n", b"c\0\n", b"\0"]
)
def test_a_nul_is_a_character_like_others(write, texts, data):
    assert texts(write("a.txt", data)) == data.decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (gzip.compress(b"text"), r"gzip, not text: give its name the ending \.gz"),
        (lzma.compress(b"text"), r"xz, not text: give its name the ending \.xz"),
        (bz2.compress(b"text"), r"bzip2, not text: give its name the ending \.bz2"),
        (zstandard.compress(b"text"), r"zstd, not text: give its name the ending \.zst"),
        (b"PK\x03\x04\x14\0", "zip, not text: unpack it"),
    ],
)
def test_packed_without_saying_so(write, read, data, what):
    with pytest.raises(InputError, match=rf"a\.txt: it looks like {what}"):
        read(write("a.txt", data), invalid_utf8="replace")


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


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("ISO_8859-1", "iso8859-1"),
        ("Windows-1251", "cp1251"),
        ("KOI8-R", "koi8-r"),
        ("Shift_JIS", "shift_jis"),
        ("GB18030", "gb18030"),
        ("euc-kr", "euc_kr"),
        ("ascii", "ascii"),
    ],
)
def test_encodings_of_text(name: str, encoding: str) -> None:
    assert text_encoding(name) == encoding


OTHERS = "hex rot13 base64 bz2 zlib uu quopri idna punycode unicode_escape raw_unicode_escape undefined utf-7 utf-16"


@pytest.mark.parametrize("name", [*OTHERS.split(), "utf-16-le", "utf-32", "cp037", "hz", "CHARSET", "", "a\0b", "os"])
def test_what_is_none(name: str) -> None:
    assert text_encoding(name) is None
