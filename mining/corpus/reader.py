"""Rows of a file or of a whole spec, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from mining.corpus.compression import Digest
from mining.corpus.inputs import list_inputs
from mining.corpus.rows import Row
from mining.corpus.spec import Format, InputFile, Layout, RowRules, layout

_READERS: dict[Format, str] = {
    "text": "mining.corpus.text:read_text",
    "tsv": "mining.corpus.delimited:read_tsv",
    "jsonl": "mining.corpus.jsonl:read_jsonl",
    "parquet": "mining.corpus.parquet:read_parquet",
    "tmx": "mining.corpus.tmx:read_tmx",
    "gettext": "mining.corpus.catalogue:read_catalogue",
}
"""By name, since the readers bring libraries which a user of one format need not wait for."""


def read_file(spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[Row]:
    """The rows of one file of `spec`, as a stream in constant memory (gettext catalogues are read whole).

    Every line or record is a row: what cannot be used comes with a reason. Raises InputError for faulty content,
    UsageError where settings and content do not fit (a missing Parquet column, a language that TMX does not have).
    After the last row `digest` has been given the file's bytes as they lie on disk (not those of a target file).
    """
    shape = layout(spec, file.path)
    module, _, function = _READERS[shape.format].partition(":")
    reader: Callable[[RowRules, InputFile, Layout, Digest | None], Iterator[Row]] = getattr(
        import_module(module), function
    )
    return reader(spec, file, shape, digest)


def read_rows(spec: RowRules) -> Iterator[Row]:
    """The rows of all files of `spec`, in the order of ``list_inputs``."""
    for file in list_inputs(spec):
        yield from read_file(spec, file)
