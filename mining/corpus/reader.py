"""Rows of a file or of a whole spec, whatever the format: as Arrow tables, or one by one from
these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from mining.corpus.compression import Digest
from mining.corpus.inputs import list_inputs
from mining.corpus.rows import Row
from mining.corpus.spec import Format, InputFile, RowRules, layout
from mining.corpus.tables import TableForm

_READERS: dict[Format, str] = {
    "text": "mining.corpus.text:read_text",
    "tsv": "mining.corpus.delimited:read_tsv",
    "jsonl": "mining.corpus.jsonl:read_jsonl",
    "parquet": "mining.corpus.parquet:read_parquet",
    "tmx": "mining.corpus.tmx:read_tmx",
    "gettext": "mining.corpus.catalogue:read_catalogue",
}
"""By name, since the readers bring libraries which a user of one format need not wait for."""
_BY_ROWS: tuple[Format, ...] = ("tmx", "gettext")
"""The readers of these yield rows, those of the others tables."""


def read_tables(spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
    """The rows of one file of `spec` as tables of `TableForm`, in constant memory (gettext
    catalogues are read whole).

    Every line or record is a row: what cannot be used comes with a reason. Raises InputError for
    faulty content, UsageError where settings and content do not fit (a missing Parquet column, a
    language that TMX does not have). After the last table `digest` has been given the file's bytes
    as they lie on disk (not those of a target file): with `new_digest` it is the `file_hash` of
    what was read.
    """
    shape = layout(spec, file.path)
    module, _, function = _READERS[shape.format].partition(":")
    reader: Callable[..., Iterator[Any]] = getattr(import_module(module), function)
    read = reader(spec, file, shape, digest)
    return TableForm(spec).tables(read) if shape.format in _BY_ROWS else read


def read_corpus(spec: RowRules) -> Iterator[pa.Table]:
    """The tables of all files of `spec`, in the order of ``list_inputs``."""
    for file in list_inputs(spec):
        yield from read_tables(spec, file)


def read_rows(spec: RowRules) -> Iterator[Row]:
    """The rows of all files of `spec` one by one, where a Python object a row is bearable."""
    form = TableForm(spec)
    for table in read_corpus(spec):
        yield from form.rows(table)
