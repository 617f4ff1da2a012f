"""Rows as tables: the same rows and the same errors as row by row."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mining.corpus import BitextSpec, CorpusSpec, Row, cells, read_corpus, read_rows
from mining.corpus.compression import PLAIN_PIECE
from mining.corpus.lines import HEAD, foreign
from mining.corpus.rows import TableForm, TextColumn, dropped, judged, make_row, table_blocks
from mining.errors import InputError
from mining.schemas import PREVIEW_CHARS
from tests.corpus.reference import FaultError, is_utf8, reference_rows

PIECES = [
    *(b"a", b"word", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\v", b"\x1c", b"\x85", b"\0"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xef\xbb", b"\n\xef\xbb\xbf", b"\t\xef\xbb\xbf"),
    *(text.encode() for text in ("ä", "€", "\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u205f", "\u3000")),
    *(b"x" * 220, "ü ".encode() * 130, b" " * 230, "\U0001f600".encode()),
]
contents = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)
lines = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(PIECES)).map(b"\t".join), max_size=12)
files = contents | lines.map(b"\n".join) | st.binary(max_size=60)
fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
policies = st.sampled_from(["strict", "replace", "skip"])
limits = st.sampled_from([1, 3, 210, 10_000])


def assert_as_reference(spec: CorpusSpec | BitextSpec, content: bytes, **rules: Any) -> None:
    """The rows of `spec` are those of the reference for a file of `content`, or both end at the
    same line."""
    if foreign(content[:HEAD]) is not None:
        with pytest.raises(InputError, match="it looks like"):
            list(read_rows(spec))
        return
    try:
        expected = reference_rows(content, **rules)
    except FaultError as fault:
        with pytest.raises(InputError, match=rf"line {fault}: "):
            list(read_rows(spec))
        return
    assert list(read_rows(spec)) == expected


@fixtures
@given(
    files,
    st.sampled_from([None, ["id", "text"], ["text"], ["x", "text", "id"]]),
    policies,
    st.sampled_from(["error", "skip"]),
    limits,
)
@example(b"a\tb\r\nc\t\r\n\r\n\td\n", ["id", "text"], "strict", "skip", 10_000)
@example(b"\xef\xbb\xbf\r\n\xef\xbb\xbf\xef\xbb\xbfb\r\n\xef\xbb\n", None, "replace", "skip", 10_000)
@example(b"a\n\x85", ["id", "text"], "strict", "error", 1)
def test_tables_equal_rows(tmp_path: Path, content: bytes, columns: Any, policy: Any, bad: Any, limit: int) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    spec = {"path": str(path), "columns": columns, "invalid_utf8": policy, "on_bad_row": bad, "max_chars": limit}
    assert_as_reference(CorpusSpec.model_validate(spec), content, columns=columns, policy=policy, bad=bad, limit=limit)


@fixtures
@given(files, policies, limits)
def test_pairs_of_a_tsv_equal_rows(tmp_path: Path, content: bytes, policy: Any, limit: int) -> None:
    path, columns = tmp_path / "a.txt", ["source", "id", "target"]
    path.write_bytes(content)
    spec = BitextSpec(path=str(path), columns=columns, invalid_utf8=policy, on_bad_row="skip", max_chars=limit)
    rules = {"columns": columns, "texts": ("source", "target"), "policy": policy, "bad": "skip", "limit": limit}
    assert_as_reference(spec, content, **rules)


@fixtures
@given(st.lists(st.tuples(*[st.sampled_from([p for p in PIECES if b"\n" not in p])] * 2)), policies, limits)
def test_aligned_lines_equal_rows(tmp_path: Path, pairs: list[tuple[bytes, bytes]], policy: Any, limit: int) -> None:
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    contents = [b"\n".join([b"first", *side, b"last"]) for side in sides]
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    spec = BitextSpec(path=[str(path) for path in paths], invalid_utf8=policy, max_chars=limit)
    if policy == "strict" and not all(map(is_utf8, contents)):
        with pytest.raises(InputError, match="invalid UTF-8"):
            list(read_rows(spec))
        return
    alone = [reference_rows(content, policy=policy, limit=1 << 20) for content in contents]
    rows = list(read_rows(spec))
    assert len(rows) == len(pairs) + 2
    for row, *both in zip(rows, *alone, strict=True):
        texts = tuple(side.texts[0] for side in both)
        invalid = any(side.reason == "invalid_utf8" for side in both)
        judge = make_row(row.id, texts, "a.txt", row.line, limit)
        expected = dropped(row.id, texts, "a.txt", row.line, "invalid_utf8") if invalid else judge
        assert row == expected._replace(replaced=any(side.replaced for side in both))


def test_every_white_space_alone_is_blank(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    content = "\n".join(chr(code) for code in range(0x3100) if code != 10).encode()
    path.write_bytes(content)
    assert_as_reference(CorpusSpec(path=str(path)), content)


@pytest.mark.parametrize("line", ["only one cell", "", "\tno id", "x\ty\tz"])
def test_unusual_lines_among_many(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.txt"
    content = "".join(f"{line}\n" if i % 7 == 3 else f"id-{i}\ttext {i}\n" for i in range(500)).encode()
    path.write_bytes(content)
    for bad in ("skip", "error"):
        spec = CorpusSpec(path=str(path), columns=["id", "text"], on_bad_row=bad)
        assert_as_reference(spec, content, columns=["id", "text"], bad=bad)


def test_lines_over_several_pieces_and_lines_beyond_all_length(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rows = [f"{i}\t{'long ' * (i % 5000)}" for i in range(700)]
    rows.insert(50, "huge\t" + "x" * (5 * PLAIN_PIECE))
    content = "\n".join(rows).encode()
    path.write_bytes(content)
    assert_as_reference(CorpusSpec(path=str(path), columns=["id", "text"]), content, columns=["id", "text"])


@given(st.lists(st.tuples(*[st.sampled_from(["", " ", "a", "äö", "x" * 201, "ü" * 250, "\u2028"])] * 2)), limits)
def test_the_rules_of_a_row_over_columns(pairs: list[tuple[str, str]], limit: int) -> None:
    sides = [pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1)]
    texts, reasons = judged([TextColumn.of(side) for side in sides], limit)
    rows = [make_row("", pair, "", 1, limit) for pair in pairs]
    assert reasons.to_pylist() == [row.reason for row in rows]
    assert list(zip(*(text.to_pylist() for text in texts), strict=True)) == [row.texts for row in rows]


FORMATS: dict[str, Any] = {
    "a.txt": lambda text: text,
    "a.tsv": lambda text: f"i\t{text}",
    "a.jsonl": lambda text: json.dumps({"id": "i", "text": text}),
}


@pytest.mark.parametrize("name", [*FORMATS, "a.parquet", "a.tmx", "a.po"])
@pytest.mark.parametrize("invalid", [False, True])
def test_a_text_of_exactly_max_chars_is_kept(tmp_path: Path, name: str, invalid: bool) -> None:
    path, kept, longer = tmp_path / name, "äöü" * 70, "äöü" * 70 + "x"
    texts = [kept, longer]
    rules: dict[str, Any] = {}
    if name == "a.parquet":
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": [text.encode() for text in texts] + [b"\xff"] * invalid}), path)
    elif name == "a.tmx":
        units = "".join(f"<tu><tuv xml:lang='en'><seg>{text}</seg></tuv></tu>" for text in texts)
        path.write_text(f"<tmx>{units}</tmx>", encoding="utf-8")
        rules["text"] = "en"
    elif name == "a.po":
        entries = "".join(f'msgid "{text}"\nmsgstr "x"\n\n' for text in texts)
        path.write_text(f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\n{entries}', encoding="utf-8")
        rules["text"] = "msgid"
    else:
        rows = [FORMATS[name](text).encode() for text in texts]
        path.write_bytes(b"\n".join([*rows, FORMATS[name]("?").encode().replace(b"?", b"\xff")][: 2 + invalid]))
        rules["columns"] = ["id", "text"] if name == "a.tsv" else None
    rows = list(read_rows(CorpusSpec(path=str(path), max_chars=210, invalid_utf8="replace", **rules)))
    assert [row.reason for row in rows[:2]] == [None, "too_long"]
    assert [row.texts[0] for row in rows[:2]] == [kept, longer[:PREVIEW_CHARS]]


@pytest.mark.parametrize(("line", "found"), [("a\tb\tc", "3 columns"), ("a", "1 column")])
@pytest.mark.parametrize("tail", [b"", b"y\t\xff\n"])
def test_a_line_of_another_width_is_an_error(tmp_path: Path, line: str, found: str, tail: bytes) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(f"x\tgood\n{line}\nz\tgood\n".encode() + tail)
    rules = {"columns": ["id", "text"], "invalid_utf8": "replace"}
    with pytest.raises(InputError, match=rf"a\.tsv, line 2: {found} found, 2 declared \(id, text\).*on_bad_row: skip"):
        list(read_corpus(CorpusSpec(path=str(path), **rules)))
    rows = [row for row in read_rows(CorpusSpec(path=str(path), on_bad_row="skip", **rules)) if row.line < 4]
    assert [(row.id, row.reason) for row in rows] == [("x", None), ("a.tsv:2", "bad_row"), ("z", None)]


@given(st.lists(st.lists(st.text("aä", max_size=5), max_size=6), max_size=6), st.integers(1, 5), st.integers(1, 9))
def test_blocks_of_tables(parts: list[list[str]], max_rows: int, max_bytes: int) -> None:
    schema = pa.schema([("text", pa.string())])
    blocks = table_blocks((pa.table([part], schema=schema) for part in parts), max_rows, max_bytes)
    expected: list[list[str]] = [[]]
    for text in (text for part in parts for text in part):
        expected[-1].append(text)
        if len(expected[-1]) == max_rows or len("".join(expected[-1]).encode()) >= max_bytes:
            expected.append([])
    assert [block["text"].to_pylist() for block in blocks] == [block for block in expected if block]


def test_rows_go_into_a_table_and_come_back() -> None:
    spec = BitextSpec(path="a.tsv", domain="d", score="s")
    form = TableForm(spec)
    rows = [
        Row("1", ("a", "b"), "f", 1, None, ("news", "0.5"), True),
        Row("2", ("", "b"), "f", 2, "bad_row"),
    ]
    table = form.table(rows)
    assert table.column_names == ["id", "source", "target", "file", "line", "reason", "replaced", "domain", "score"]
    assert list(form.rows(table)) == rows
    assert list(form.rows(table.slice(0, 0))) == []
    assert list(TableForm(CorpusSpec(path="a")).rows(TableForm(CorpusSpec(path="a")).table([]))) == []


@pytest.mark.parametrize("width", [1, 2])
def test_the_kernel_stays_within_its_arrays(width: int) -> None:
    # In Python a place beyond an array is an error; the kernel would read or write whatever lies
    # there.
    kernel: Any = cells._find_cells
    for length in range(6):
        for block in map(bytes, itertools.product(b"a\t\r\n", repeat=length)):
            found = cells.find_cells(block, width)
            again = [np.zeros_like(array) for array in found[1:]]
            getattr(kernel, "py_func", kernel)(found.data, ord("\t"), *again)
            for one, other in zip(found[1:], again, strict=True):
                assert one.tolist() == other.tolist()
