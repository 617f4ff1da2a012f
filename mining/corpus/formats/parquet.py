"""Parquet: a record is a row, read by batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from mining.config.corpus import RowRules
from mining.corpus.cells import inspect
from mining.corpus.compression import Digest, open_seekable
from mining.corpus.formats import FORMATS, NO_ID, Format, Layout
from mining.corpus.inputs import InputFile
from mining.corpus.rows import (
    Row,
    TableForm,
    TextColumn,
    bad_row,
    dropped,
    generated_id,
    invalid_utf8_error,
    judged,
    make_row,
)
from mining.errors import InputError, UsageError
from mining.schemas import Reason

BATCH_ROWS = 8192
_BATCH_BYTES = 1 << 26
"""A batch with more text than that is halved, again and again, until it has less or is one row."""
_NAMES_SHOWN = 500


class ParquetFormat(Format):
    """Parquet: columns by their names, or fields of groups of columns."""

    extensions = (".parquet", ".pq")

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one file; text columns hold strings (null counts as blank), the id column strings
        or integers.

        A dotted name (``translation.en``) is a field of a struct, unless a column has that very
        name. Raises UsageError for a missing column (naming those there are), one that stands twice
        or one of another type, InputError for a file that is not Parquet or is damaged.
        """
        reader, number = _Reader(spec, file, self.layout(spec, file.path)), 0
        with open_seekable(file.path, digest) as stream:
            try:
                parquet = pq.ParquetFile(stream)
                wanted = reader.columns(parquet.schema_arrow)
                for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                    for part in _halved(reader.fields(batch)):
                        yield from reader.tables(number + 1, part)
                        number += len(part.texts[0])
            except (pa.ArrowException, OSError) as error:
                problem = " ".join(str(error).split())
                raise InputError(
                    f"{file.path}, after row {number}: not a sound Parquet file ({problem}): fetch or write it again"
                ) from None


FORMATS.register("parquet")(ParquetFormat())


class _Fields(NamedTuple):
    """What is read of n records: strings (binary where they are no UTF-8) or numbers, and null."""

    texts: list[pa.Array]
    ids: pa.Array | None
    extra: list[pa.Array]

    def cut(self, start: int, stop: int) -> _Fields:
        ids = None if self.ids is None else self.ids[start:stop]
        return _Fields([t[start:stop] for t in self.texts], ids, [e[start:stop] for e in self.extra])


def _halved(fields: _Fields) -> Iterator[_Fields]:
    rows = len(fields.texts[0])
    ids = [] if fields.ids is None else [fields.ids]
    if rows > 1 and sum(column.nbytes for column in [*fields.texts, *ids]) > _BATCH_BYTES:
        yield from _halved(fields.cut(0, rows // 2))
        yield from _halved(fields.cut(rows // 2, rows))
    else:
        yield fields


class _Reader:
    def __init__(self, spec: RowRules, file: InputFile, layout: Layout) -> None:
        self.spec, self.file, self.layout = spec, file, layout
        self.form = TableForm(spec)
        self.id_column: str | None = None

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns to be read, after a look at their types."""
        self.id_column = self.spec.id_among(schema.names)
        names = dict.fromkeys([*self.layout.fields, *self.layout.extra, *([self.id_column] if self.id_column else [])])
        for name in names:
            self._check(schema, name)
        return list(names)

    def _check(self, schema: pa.Schema, name: str) -> None:
        path = self.file.path
        kind = _kind_of(schema, name, path)
        if kind is None:
            shown = ", ".join(schema.names)
            shown = shown if len(shown) <= _NAMES_SHOWN else f"{shown[:_NAMES_SHOWN]} …"
            raise UsageError(f"{path}: no column '{name}'; the columns are: {shown}")
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            inner = ", ".join(f"{name}.{field.name}" for field in kind)[:_NAMES_SHOWN]
            raise UsageError(f"{path}: column '{name}' is a group of columns: name one of {inner}")
        is_id = name == self.id_column
        fits = _is_text(kind) or (types.is_null(kind) and not is_id)
        if name not in self.layout.fields:
            fits |= types.is_integer(kind) or (name in self.layout.extra and not is_id and _is_number(kind))
        if not fits:
            wanted = "string or integer" if is_id and name not in self.layout.fields else "string"
            mend = f", or {NO_ID}" if is_id else ""
            raise UsageError(f"{path}: column '{name}' has the type {kind}, not {wanted}: name another column{mend}")

    def fields(self, batch: pa.RecordBatch) -> _Fields:
        ids = _values(batch, self.id_column) if self.id_column else None
        texts, extra = ([_values(batch, name) for name in names] for names in (self.layout.fields, self.layout.extra))
        return _Fields(texts, ids, extra)

    def tables(self, first: int, fields: _Fields) -> Iterator[pa.Table]:
        """The rows of records, the first of which has that number."""
        extra = [pa.array([_label(value) for value in column.to_pylist()], pa.string()) for column in fields.extra]
        named = fields.ids is None or _are_ids(fields.ids)
        if not named or any(types.is_large_binary(text.type) for text in fields.texts):
            yield from self.form.tables(self._rows(first, fields, extra))
            return
        columns = [TextColumn.of(text) for text in fields.texts]
        lines = np.arange(first, first + len(fields.texts[0]))
        ids = None if fields.ids is None else fields.ids.cast(pa.string())
        yield self.form.of_columns(self.file.name, lines, *judged(columns, self.spec.max_chars), ids, extra)

    def _rows(self, first: int, fields: _Fields, extra: list[pa.Array]) -> Iterator[Row]:
        """One after the other, where an id is missing or something is not UTF-8."""
        texts = zip(*(column.to_pylist() for column in fields.texts), strict=True)
        ids = [None] * len(fields.texts[0]) if fields.ids is None else fields.ids.to_pylist()
        labels = zip(*(column.to_pylist() for column in extra), strict=True) if extra else [()] * len(ids)
        for number, (row_id, values, more) in enumerate(zip(ids, texts, labels, strict=True), first):
            yield self._row(number, row_id, values, more)

    def _row(self, number: int, row_id: object, values: tuple[str | bytes, ...], extra: tuple[str, ...]) -> Row:
        name = self.file.name
        own = generated_id(name, number) if self.id_column is None else _text(row_id)
        texts = tuple(map(_text, values))
        replaced = not all(_is_utf8(value) for value in (row_id, *values))
        if replaced and self.spec.invalid_utf8 == "strict":
            raise invalid_utf8_error(self.file.path, number, where="row")
        if replaced and self.spec.invalid_utf8 == "skip":
            kept = own if own.strip() and _is_utf8(row_id) else generated_id(name, number)
            return dropped(kept, texts, name, number, Reason.INVALID_UTF8, extra)
        if not own or own.isspace():
            problem = f"the id in column '{self.id_column}' is empty: give the row an id, {NO_ID}"
            return bad_row(self.spec, self.file.path, name, number, texts, problem, "row")
        return make_row(own, texts, name, number, self.spec.max_chars, extra)._replace(replaced=replaced)


def _kind_of(schema: pa.Schema, name: str, path: str) -> pa.DataType | None:
    """The type of a column or of a field of a struct; None if there is none, UsageError if there
    are two."""
    parts = [name] if name in schema.names else name.split(".")
    kind: pa.DataType = pa.struct(list(schema))
    for part in parts:
        names = [field.name for field in kind] if types.is_struct(kind) else []
        if names.count(part) > 1:
            raise UsageError(f"{path}: column '{name}' stands twice: give the columns names of their own")
        if part not in names:
            return None
        kind = kind.field(part).type
    return kind


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal))


def _is_text(kind: pa.DataType) -> bool:
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*tests, types.is_binary, types.is_large_binary, types.is_binary_view))


def _values(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Numbers as they are; texts as large strings, null as "", or as binary if one is not UTF-8
    (Parquet does not check it)."""
    column = _column(batch, name)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (_is_text(column.type) or types.is_null(column.type)):
        return column
    column = column.cast(pa.large_binary()).fill_null(b"")
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return column


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    outer, *inner = name.split(".")
    return pc.struct_field(batch.column(outer), inner)


def _are_ids(ids: pa.Array) -> bool:
    """Whether every record has an id: strings that are not blank, or integers."""
    if types.is_large_string(ids.type):
        return not inspect(*TextColumn.of(ids))[1].any()
    return types.is_integer(ids.type) and not ids.null_count


def _label(value: object) -> str:
    """A value of a further column as text; null is empty."""
    return "" if value is None else _text(value)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _is_utf8(value: object) -> bool:
    if isinstance(value, bytes):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return False
    return True
