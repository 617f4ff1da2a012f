"""One more format is one more file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mining.corpus import CorpusSpec, formats, read_rows
from mining.errors import UsageError

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
