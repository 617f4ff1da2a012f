"""Rows as readers give them: usable, or with the reason why not; one by one, and as Arrow tables.

A table is the form in which all readers hand rows on. `make_row` and `dropped`, the rules of one
row, are the reference of `judged`, the same rules over whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.config.corpus import BitextSpec, RowRules
from mining.corpus.cells import cut, inspect, string_buffers, strings
from mining.errors import InputError
from mining.schemas import PREVIEW_CHARS, Reason

LONGEST_TEXT = 1 << 28
"""Characters beyond which a text is too long whatever `max_chars` says: the bytes of one table are
below 2 GiB."""


class Row(NamedTuple):
    """One row of a corpus or bitext.

    ``texts`` holds one text for a corpus and two for a bitext; for an unusable row previews of at
    most 200 characters. ``file`` is the display name of the file, ``line`` the 1-based line (text,
    TSV, JSON lines) or record number (Parquet row, TMX unit, gettext entry). ``reason`` is None for
    a usable row, else one of ``blank``, ``too_long``, ``invalid_utf8``, ``bad_row``. ``extra``
    holds the values of ``spec.extra_fields`` (the domain and the score of a pair), and is empty
    where there are none or where the row is too faulty to tell. ``replaced`` says that bytes of it
    were no UTF-8 and are U+FFFD now.
    """

    id: str
    texts: tuple[str, ...]
    file: str
    line: int
    reason: str | None
    extra: tuple[str, ...] = ()
    replaced: bool = False


def make_row(
    row_id: str, texts: tuple[str, ...], name: str, line: int, max_chars: int, extra: tuple[str, ...] = ()
) -> Row:
    """A row of well-formed texts, which may still be too long or blank (nothing but white
    space)."""
    for text in texts:
        if len(text) > min(max_chars, LONGEST_TEXT):
            return dropped(row_id, texts, name, line, Reason.TOO_LONG, extra)
    for text in texts:
        if not text or text.isspace():
            # Whole texts, since the other side of a pair may be wanted as it is.
            return Row(row_id, texts, name, line, Reason.BLANK, extra)
    return Row(row_id, texts, name, line, None, extra)


def dropped(row_id: str, texts: tuple[str, ...], name: str, line: int, reason: str, extra: tuple[str, ...] = ()) -> Row:
    """A row that cannot be used; only previews of its texts are kept."""
    return Row(row_id, tuple(text[:PREVIEW_CHARS] for text in texts), name, line, reason, extra)


def row_blocks(rows: Iterable[Row], max_rows: int, max_chars: int) -> Iterator[list[Row]]:
    """Rows in blocks bounded in rows and (but for one row) in characters."""
    block: list[Row] = []
    chars = 0
    for row in rows:
        block.append(row)
        chars += sum(map(len, row.texts))
        if len(block) >= max_rows or chars >= max_chars:
            yield block
            block, chars = [], 0
    if block:
        yield block


def generated_id(name: str, line: int) -> str:
    """The id of a row that brings none: display name of the file and line or record number."""
    return f"{name}:{line}"


def bad_row(
    rules: RowRules, path: str, name: str, line: int, texts: tuple[str, ...], problem: str, where: str = "line"
) -> Row:
    """A row that does not have the declared form: an InputError, or a dropped row under
    ``on_bad_row: skip``.

    `where` says what `line` counts. The id is generated, since what stands where the id should
    cannot be trusted.
    """
    if rules.on_bad_row == "error":
        raise InputError(f"{path}, {where} {line}: {problem}, or set on_bad_row: skip")
    return dropped(generated_id(name, line), texts, name, line, Reason.BAD_ROW)


def invalid_utf8_error(path: str, line: int, detail: str = "", where: str = "line") -> InputError:
    """The error of the policy ``strict``."""
    found = f"invalid UTF-8{f' ({detail})' if detail else ''}"
    mend = "convert the file to UTF-8, or set invalid_utf8: replace or invalid_utf8: skip"
    return InputError(f"{path}, {where} {line}: {found}: {mend}")


#: Rows turned into Arrow at a time: Python strings cost several times their text.
_BLOCK_ROWS, _BLOCK_CHARS = 8192, 4_000_000
_REASONS = pa.array([Reason.BLANK, Reason.TOO_LONG], pa.string())
_FIXED = [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("replaced", pa.bool_())]


class TextColumn(NamedTuple):
    """The texts of n rows: bounds (n,) int64 in `data`, uint8, which is UTF-8 between them. Bounds
    are changed."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, texts: pa.Array) -> TextColumn:
        """Those of an Arrow array of strings, none of them null."""
        data, offsets = string_buffers(texts)
        return cls(data, offsets[:-1].copy(), offsets[1:].copy())


def judged(
    columns: Sequence[TextColumn], max_chars: int, faulty: NDArray[np.bool_] | None = None
) -> tuple[list[pa.Array], pa.Array]:
    """The texts of each column and the reasons of the rows, as `make_row` gives them; the texts are
    less than 2 GiB.

    Rows that are `faulty`, (n,) bool, come as `dropped` gives them, with the reason ``too_long``.
    """
    facts = [inspect(*column) for column in columns]
    long = np.any([chars > min(max_chars, LONGEST_TEXT) for chars, _ in facts], axis=0)
    if faulty is not None:
        long |= faulty
    blank = np.any([empty for _, empty in facts], axis=0)
    if (shortened := np.flatnonzero(long)).size:
        for column, (chars, _) in zip(columns, facts, strict=True):
            cut((*column, chars), shortened, PREVIEW_CHARS)
    texts = [strings(*column) for column in columns]
    if not (long.any() or blank.any()):
        return texts, pa.nulls(len(blank), pa.string())
    return texts, _REASONS.take(pa.array(np.where(long, 1, 0), mask=~(long | blank)))


class TableForm:
    """The columns of the tables of a corpus or bitext: those of `Row`, each text and each further
    value alone.

    ``id``; ``text``, for a bitext ``source`` and ``target``; ``file``, ``line``, ``reason`` and
    ``replaced``; ``domain`` and ``score`` where the spec names them, null in a row too faulty to
    tell. A table has rows of one file.
    """

    def __init__(self, spec: RowRules) -> None:
        pairs = isinstance(spec, BitextSpec)
        self.texts = ("source", "target") if pairs else ("text",)
        wanted = {"domain": spec.domain, "score": spec.score} if isinstance(spec, BitextSpec) else {}
        self.extra = tuple(role for role, name in wanted.items() if name is not None)
        strings_ = [[(name, pa.string()) for name in names] for names in (("id", *self.texts), self.extra)]
        self.schema = pa.schema([*strings_[0], *_FIXED, *strings_[1]])

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Rows of one file as a table."""
        columns: list[list[object]] = [[row.id for row in rows]]
        columns += [[row.texts[side] for row in rows] for side in range(len(self.texts))]
        columns += [[getattr(row, name) for row in rows] for name, _ in _FIXED]
        columns += [[row.extra[i] if row.extra else None for row in rows] for i in range(len(self.extra))]
        return pa.table(columns, schema=self.schema)

    def tables(self, rows: Iterable[Row]) -> Iterator[pa.Table]:
        """Rows of one file as tables, in constant memory."""
        return map(self.table, row_blocks(rows, _BLOCK_ROWS, _BLOCK_CHARS))

    def of_columns(
        self,
        name: str,
        lines: NDArray[np.int64],
        texts: Sequence[pa.Array],
        reasons: pa.Array,
        ids: pa.Array | None = None,
        extra: Sequence[pa.Array] = (),
        replaced: pa.Array | None = None,
    ) -> pa.Table:
        """A table of the rows in those `lines` of the file `name`; ids are generated if there are
        none."""
        numbers = pa.array(lines)
        if ids is None:
            ids = pc.binary_join_element_wise(name, numbers.cast(pa.string()), ":")
        file = pa.repeat(pa.scalar(name), len(lines))
        replaced = pa.repeat(pa.scalar(False), len(lines)) if replaced is None else replaced
        return pa.table([ids, *texts, file, numbers, reasons, replaced, *extra], schema=self.schema)

    def rows(self, table: pa.Table) -> Iterator[Row]:
        """The rows of a table."""
        if not len(table):
            return iter(())
        ids, lines, replaced = (table.column(name).to_pylist() for name in ("id", "line", "replaced"))
        texts = zip(*(table.column(name).to_pylist() for name in self.texts), strict=True)
        reasons = table.column("reason")
        reason = repeat(None) if reasons.null_count == len(table) else reasons.to_pylist()
        extra: Iterable[tuple[str, ...]] = repeat(())
        if self.extra:
            values = zip(*(table.column(name).to_pylist() for name in self.extra), strict=True)
            extra = (value if None not in value else () for value in values)
        file = repeat(table.column("file")[0].as_py())
        return map(Row, ids, texts, file, lines, reason, extra, replaced)


def table_blocks(tables: Iterable[pa.Table], max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """The rows of tables of one schema in blocks bounded in rows and (but for one row) in bytes of
    their ``text``.

    Where the blocks end does not depend on where the tables do.
    """
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        while len(table):
            ends = np.cumsum(pc.binary_length(table.column("text")).to_numpy()) + size
            count = min(max_rows - rows, int(np.searchsorted(ends, max_bytes)) + 1, len(table))
            held.append(table.slice(0, count))
            rows, size, table = rows + count, int(ends[count - 1]), table.slice(count)
            if rows == max_rows or size >= max_bytes:
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)
