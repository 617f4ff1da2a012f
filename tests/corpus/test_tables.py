"""Rows as tables: the same rows and the same errors as row by row."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mining.corpus import CorpusSpec, Row, list_inputs, read_file
from mining.corpus.compression import PLAIN_PIECE
from mining.corpus.tables import ROWS_SCHEMA, read_tables
from mining.errors import BitextError

PIECES = [
    *(b"a", b"word", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\v", b"\x1c", b"\x85", b"\0"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(text.encode() for text in ("ä", "€", "\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u205f", "\u3000")),
    *(b"x" * 220, "ü ".encode() * 130, b" " * 230, "\U0001f600".encode()),
]
contents = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)
lines = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(PIECES)).map(b"\t".join), max_size=12)
files = contents | lines.map(b"\n".join) | st.binary(max_size=60)


def outcome(rows: Iterator[Any]) -> tuple[list[Any], str | None]:
    """What is yielded, and the error that ends it."""
    found = []
    try:
        for row in rows:
            found.append(row)
    except BitextError as error:
        return found, str(error)
    return found, None


def as_rows(table: pa.Table) -> list[Row]:
    assert table.schema == ROWS_SCHEMA
    return [Row(r["id"], (r["text"],), r["file"], r["line"], r["reason"]) for r in table.to_pylist()]


def both(spec: CorpusSpec) -> list[tuple[list[Row], str | None]]:
    (file,) = list_inputs(spec)
    tables, error = outcome(read_tables(spec, file))
    return [outcome(read_file(spec, file)), ([row for table in tables for row in as_rows(table)], error)]


def assert_same(spec: CorpusSpec) -> None:
    (rows, error), (fast, fast_error) = both(spec)
    assert fast_error == error
    # Where an error ends the rows, the block with the fault may be left out whole.
    assert fast == (rows if error is None else rows[: len(fast)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files,
    st.sampled_from([None, ["id", "text"], ["text"], ["x", "text", "id"]]),
    st.sampled_from(["strict", "replace", "skip"]),
    st.sampled_from(["error", "skip"]),
    st.sampled_from([1, 3, 210, 10_000]),
)
@example(b"a\tb\r\nc\t\r\n\r\n\td\n", ["id", "text"], "strict", "skip", 10_000)
def test_tables_equal_rows(tmp_path: Path, content: bytes, columns: Any, policy: Any, bad: Any, limit: int) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    spec = {"path": str(path), "columns": columns, "invalid_utf8": policy, "on_bad_row": bad, "max_chars": limit}
    assert_same(CorpusSpec.model_validate(spec))


def test_every_white_space_alone_is_blank(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    chars = [chr(code) for code in range(0x3100) if code not in (10, 0xD800)]
    path.write_text("\n".join(chars), encoding="utf-8", newline="")
    assert_same(CorpusSpec(path=str(path)))


@pytest.mark.parametrize("line", ["only one cell", "", "\tno id", "x\ty\tz"])
def test_unusual_lines_among_many(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{line}\n" if i % 7 == 3 else f"id-{i}\ttext {i}\n" for i in range(500)), encoding="utf-8")
    assert_same(CorpusSpec(path=str(path), columns=["id", "text"], on_bad_row="skip"))
    assert_same(CorpusSpec(path=str(path), columns=["id", "text"]))


def test_lines_over_several_pieces_and_lines_beyond_all_length(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    rows = [f"{i}\t{'long ' * (i % 5000)}" for i in range(700)]
    rows.insert(50, "huge\t" + "x" * (5 * PLAIN_PIECE))
    path.write_text("\n".join(rows), encoding="utf-8")
    assert_same(CorpusSpec(path=str(path), columns=["id", "text"]))


def test_truncated_file_is_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d of many\n" % (i * 7919) for i in range(50_000)))[:-2000])
    (_, error), (_, fast_error) = both(CorpusSpec(path=str(path)))
    assert error is not None
    assert error == fast_error


def test_other_formats_come_through_their_readers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"r{i}", "text": f"a\nb {i}"}) + "\n" for i in range(9)), encoding="utf-8"
    )
    assert_same(CorpusSpec(path=str(path)))
