"""Parquet: a record is a row, read by batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mining.corpus.compression import Digest, open_seekable
from mining.corpus.rows import INVALID_UTF8, Row, bad_row, dropped, generated_id, invalid_utf8_error, make_row
from mining.corpus.spec import InputFile, Layout, RowRules
from mining.errors import InputError, UsageError

BATCH_ROWS = 4096


def read_parquet(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one file; text columns hold strings (null counts as blank), the id column strings or integers.

    Raises UsageError for a missing column (naming those there are) or one of another type, InputError for a file that
    is not Parquet or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    with open_seekable(file.path, digest) as stream:
        try:
            parquet = pq.ParquetFile(stream)
            id_column = _check_schema(parquet.schema_arrow, spec, layout, file.path)
            columns = list(dict.fromkeys([*layout.fields, *layout.extra, *([id_column] if id_column else [])]))
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                texts = [_values(batch.column(field)) for field in layout.fields]
                ids = _values(batch.column(id_column)) if id_column else None
                extras = [_values(batch.column(field)) for field in layout.extra]
                for index, row_texts in enumerate(zip(*texts, strict=True)):
                    row_id = ids[index] if ids is not None else generated_id(file.name, number + index + 1)
                    extra = tuple([_label(values[index]) for values in extras])
                    yield _row(spec, file, number + index + 1, row_id, row_texts, id_column, extra)
                number += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            problem = " ".join(str(error).split())
            raise InputError(
                f"{file.path}, after row {number}: not a sound Parquet file ({problem}): fetch or write it again"
            ) from None


def _check_schema(schema: Any, spec: RowRules, layout: Layout, path: str) -> str | None:
    """The name of the id column, if there is one."""
    import pyarrow as pa

    id_column = spec.id if spec.id is not None else ("id" if "id" in schema.names else None)
    fields = layout.fields
    for name in (*fields, *layout.extra, *([id_column] if id_column else [])):
        if name not in schema.names:
            raise UsageError(f"{path}: no column '{name}'; the columns are: {', '.join(schema.names)}")
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        number = (name == id_column and pa.types.is_integer(kind)) or (name in layout.extra and _is_number(kind))
        if not (_is_text(kind) or (number and name not in fields)):
            raise UsageError(f"{path}: column '{name}' has the type {kind}, not string: name another column")
    return id_column


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal))


def _label(value: Any) -> str:
    """A value of a further column as text; null is empty."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _values(column: Any) -> list[Any]:
    """Python values; text as str, or as bytes where it is not valid UTF-8 (Parquet does not check it)."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _is_text(column.type):
        return column.to_pylist()
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
    return [_decoded(value) if isinstance(value, bytes) else value for value in values]


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _row(
    spec: RowRules,
    file: InputFile,
    number: int,
    row_id: Any,
    values: tuple[str | bytes | None, ...],
    id_column: str | None,
    extra: tuple[str, ...],
) -> Row:
    texts = tuple("" if v is None else v if isinstance(v, str) else v.decode("utf-8", "replace") for v in values)
    own = "" if row_id is None else row_id.decode("utf-8", "replace") if isinstance(row_id, bytes) else str(row_id)
    if isinstance(row_id, bytes) or any(isinstance(value, bytes) for value in values):
        if spec.invalid_utf8 == "strict":
            raise invalid_utf8_error(file.path, number, where="row")
        if spec.invalid_utf8 == "skip":
            kept = generated_id(file.name, number) if isinstance(row_id, bytes) or not own.strip() else own
            return dropped(kept, texts, file.name, number, INVALID_UTF8, extra)
    if not own or own.isspace():
        problem = f"the id in column '{id_column}' is empty: give the row an id"
        return bad_row(spec, file.path, file.name, number, texts, problem, "row")
    return make_row(own, texts, file.name, number, spec.max_chars, extra)
