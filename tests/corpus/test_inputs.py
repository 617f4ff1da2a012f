"""From settings to files; one more format is one more file."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from mining.config.base import validate
from mining.corpus import BitextSpec, CorpusSpec, formats, list_inputs, read_rows
from mining.errors import UsageError
from mining.io.files import file_hash


def _names(path, **settings) -> list[str]:
    return [file.name for file in list_inputs(CorpusSpec(path=path, **settings))]


def test_single_path_becomes_a_list(write):
    path = write("a.txt", "a\n")
    assert CorpusSpec(path=path).path == [path]
    assert CorpusSpec(path=Path(path)).paths == [path]
    assert _names(path) == ["a.txt"]


def test_glob_is_sorted_and_named_from_the_common_parent(write, tmp_path):
    for name in ["in/b/2.txt", "in/a/1.txt", "in/b/1.txt.gz", "in/note.md"]:
        write(name, "a\n")
    assert _names(str(tmp_path / "in" / "**" / "*.txt*")) == ["a/1.txt", "b/1.txt.gz", "b/2.txt"]


def test_file_named_twice_is_read_once(write, tmp_path):
    path = write("a.txt", "a\n")
    write("b.txt", "b\n")
    assert _names([path, str(tmp_path / "*.txt"), path]) == ["a.txt", "b.txt"]


def test_names_with_glob_characters_are_taken_as_they_are(write):
    assert _names(write("a[1]*.txt", "a\n")) == ["a[1]*.txt"]


def test_ids_of_files_of_one_name_differ(write, read, tmp_path):
    write("x/a.txt", "1\n")
    write("y/a.txt", "2\n")
    assert [row.id for row in read(str(tmp_path / "*" / "a.txt"))] == ["x/a.txt:1", "y/a.txt:1"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere.txt", r"nowhere\.txt: no such file: correct the path"),
        ("nowhere-*.txt", r"nowhere-\*\.txt: no file matches"),
        (".", "is a folder: name its files"),
        ("/dev/null", "is not a regular file"),
    ],
)
def test_paths_that_name_no_file(path, problem):
    with pytest.raises(UsageError, match=problem):
        list_inputs(CorpusSpec(path=path, format="text"))


def test_po_is_read_instead_of_its_mo(write, tmp_path):
    for name in ["a.po", "a.mo", "b.mo"]:
        write(name, "")
    assert _names(str(tmp_path / "*.?o"), text="msgid") == ["a.po", "b.mo"]


def test_unknown_extension_says_what_to_do(write):
    path = write("corpus.de", "a\n")
    with pytest.raises(UsageError, match=r"corpus\.de: cannot tell the format .*'\.de'.*set format: text"):
        _names(path)
    assert _names(path, format="text") == ["corpus.de"]
    assert _names(path, columns=["id", "text"]) == ["corpus.de"]


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("a.txt", {"format": "text", "columns": ["text"]}, "plain text has no columns"),
        ("a.txt", {"id": "key"}, "text has no column 'key' for ids"),
        ("a.po", {"text": "msgid", "id": "key"}, "gettext has no column 'key' for ids"),
        ("a.tmx", {"text": "de", "id": "key"}, "the only id in TMX is `tuid`"),
        ("a.jsonl", {"columns": ["id", "text"]}, "columns are declared, but no file is TSV"),
    ],
)
def test_settings_that_do_not_fit_the_format(write, name, settings, problem):
    with pytest.raises(UsageError, match=problem):
        _names(write(name, ""), **settings)


def test_bitext_needs_two_text_files(write, tmp_path):
    a, b = write("a.txt", "a\n"), write("b.txt", "b\n")
    (pair,) = list_inputs(BitextSpec(path=[b, a]))
    assert (pair.path, pair.name, pair.target_path) == (b, "b.txt", a)
    for path in ([a], [a, b, write("c.txt", "")], [a, str(tmp_path / "*.txt")], [a, write("d.tmx", "")]):
        with pytest.raises(UsageError, match=r"exactly two line-aligned files|TMX needs two language codes"):
            list_inputs(BitextSpec(path=path))
    with pytest.raises(UsageError, match="both sides"):
        list_inputs(BitextSpec(path=[a, a]))


def test_bitext_needs_two_different_columns(write):
    spec = BitextSpec(path=write("a.tsv", ""), columns=["x"], source="x", target="x")
    with pytest.raises(UsageError, match="source and target are both 'x'"):
        list_inputs(spec)


def test_unknown_key_suggests_the_nearest():
    with pytest.raises(UsageError, match=r"source: unknown key 'colums': did you mean 'columns'"):
        validate(CorpusSpec, {"path": "a.tsv", "colums": ["id"]}, "source")


@pytest.mark.parametrize(
    "settings", [{"path": []}, {"path": ""}, {"path": "a", "max_chars": 0}, {"path": "a", "columns": []}]
)
def test_faulty_settings(settings):
    with pytest.raises(ValidationError):
        CorpusSpec(**settings)


def test_file_hash_is_that_of_the_raw_bytes(write):
    path = write("a.txt.gz", "a\n" * 10)
    assert file_hash(path) == hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    with pytest.raises(UsageError, match="nowhere: cannot be read"):
        file_hash("nowhere")


def test_names_that_are_no_utf8_or_hold_controls_are_escaped_in_ids(write, read):
    odd = write("d/caf\udce9.txt", "a\n")
    write("d/n\new\x1b.txt", "b\n")
    rows = read(odd)
    assert [(row.id, row.file) for row in rows] == [("caf\\xe9.txt:1", "caf\\xe9.txt")]
    found = [row.id for row in read(str(Path(odd).parent / "*.txt"))]
    assert found == ["caf\\xe9.txt:1", "n\\new\\x1b.txt:1"]
    "".join(found).encode("utf-8")


def test_the_name_of_an_aligned_file_is_escaped_too(write, read):
    paths = [write("a\udcff.txt", "a\n"), write("b.txt", "b\n")]
    assert read(paths, bitext=True)[0].id == "a\\xff.txt:1"


CSV = """
from mining.corpus.formats import FORMATS, Format
from mining.corpus.lines import numbered_lines
from mining.corpus.rows import TableForm, make_row


class CsvFormat(Format):
    extensions = (".csv",)

    def read(self, spec, file, digest=None):
        lines = numbered_lines(file.path, spec.invalid_utf8, spec.max_chars, digest)
        next(lines)
        cells = ((number, line.split(",")) for number, line in lines)
        rows = (make_row(one, (text,), file.name, number, spec.max_chars) for number, (one, text) in cells)
        return TableForm(spec).tables(rows)


FORMATS.register("csv")(CsvFormat())
"""


@pytest.fixture
def csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of a new format, which is in the package by one more module."""
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "csv.py").write_text(CSV, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "formats")])
    importlib.invalidate_caches()
    path = tmp_path / "a.csv"
    path.write_text("id,text\nx,Guten Morgen\ny,Das Haus ist alt\n", encoding="utf-8")
    yield path
    formats.FORMATS._entries.pop("csv", None)
    sys.modules.pop("mining.corpus.formats.csv", None)


def test_a_new_format_by_its_extension_and_by_its_name(csv: Path) -> None:
    expected = [("x", ("Guten Morgen",), 2), ("y", ("Das Haus ist alt",), 3)]
    odd = csv.rename(csv.with_name("a.odd"))
    assert [(row.id, row.texts, row.line) for row in read_rows(CorpusSpec(path=str(odd), format="csv"))] == expected
    with pytest.raises(UsageError, match=r"known: \.csv, .*\.tsv"):
        list(read_rows(CorpusSpec(path=str(odd))))
    assert odd.rename(csv)
    assert [(row.id, row.texts, row.line) for row in read_rows(CorpusSpec(path=str(csv)))] == expected


def test_a_new_format_is_encoded(csv: Path, tmp_path: Path, bitext: Callable[..., Any]) -> None:
    for flags in ([], ["--format", "csv"]):
        assert bitext("encode", csv, "-o", tmp_path / "v.npy", *flags).code == 0
        assert np.load(tmp_path / "v.npy").shape[0] == 2


def test_an_unknown_format_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown format 'tvs': did you mean 'tsv'\?"):
        CorpusSpec(path="a", format="tvs")


def test_settings_do_not_import_the_readers() -> None:
    code = "import sys, mining.config.corpus; print(*(m for m in ('pyarrow', 'numba', 'torch') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"
