"""TSV with declared columns: no header, no quoting, every tab separates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.config.corpus import RowRules
from mining.corpus.cells import find_cells, inspect, strings
from mining.corpus.compression import Digest
from mining.corpus.formats import FORMATS, Format, Layout
from mining.corpus.inputs import InputFile
from mining.corpus.lines import FaultyLine, Line, ReplacedLine, read_blocks, split_cells, split_lines
from mining.corpus.rows import Row, TableForm, TextColumn, bad_row, dropped, generated_id, judged, make_row
from mining.errors import UsageError


class TsvFormat(Format):
    """TSV whose columns the settings declare."""

    extensions = (".tsv", ".tab")
    takes_columns = True

    def check(self, spec: RowRules, fields: tuple[str, ...], path: str) -> None:
        """See `Format.check`."""
        if spec.columns is None:
            raise UsageError(f"{path}: declare the columns of the TSV in their order, for example columns: [id, text]")
        for name in (*fields, *spec.extra_fields, *([spec.id] if spec.id else [])):
            if name not in spec.columns:
                declared = ", ".join(spec.columns)
                raise UsageError(f"{path}: no column '{name}' is declared; declared: {declared}: correct the name")

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one file; the id comes from the column `spec.id`, by default ``id`` if such a
        column is declared.

        Blocks of lines are cut by a kernel. Whatever is unusual (a line of another width, a row
        without an id, invalid UTF-8, a line beyond all length) goes through `TsvReader`.
        """
        reader = TsvReader(spec, file, self.layout(spec, file.path))
        form = TableForm(spec)
        for first, block in read_blocks(file.path, spec.invalid_utf8, spec.max_chars, digest=digest):
            if isinstance(block, bytes):
                yield _block_table(reader, form, first, block)
            else:
                yield from form.tables(reader.rows(first, block))


FORMATS.register("tsv")(TsvFormat())


def _block_table(reader: TsvReader, form: TableForm, first: int, block: bytes) -> pa.Table:
    """A block of valid UTF-8 that begins with line `first`."""
    cells = find_cells(block, len(reader.columns))
    usual, id_column = cells.whole, reader.id_column
    if id_column is not None:
        usual &= ~inspect(cells.data, cells.starts[:, id_column].copy(), cells.stops[:, id_column].copy())[1]
    chosen = np.flatnonzero(usual)
    bounds = [(cells.starts[chosen, column], cells.stops[chosen, column]) for column in range(len(reader.columns))]
    ids = None if id_column is None else strings(cells.data, *bounds[id_column])
    extra = [strings(cells.data, *bounds[column]) for column in reader.extra_columns]
    columns = [TextColumn(cells.data, bounds[i][0].copy(), bounds[i][1].copy()) for i in reader.text_columns]
    texts, reasons = judged(columns, reader.spec.max_chars)
    table = form.of_columns(reader.file.name, first + chosen, texts, reasons, ids, extra)
    if len(chosen) == len(usual):
        return table
    return _with_unusual(table, reader, form, first, block, np.flatnonzero(~usual))


def _with_unusual(
    table: pa.Table, reader: TsvReader, form: TableForm, first: int, block: bytes, unusual: NDArray[np.int64]
) -> pa.Table:
    """The table with the rows of the unusual lines (positions in the block) among its own."""
    lines = split_lines(block)
    rows = [row for i in unusual.tolist() for row in reader.rows(first + i, [lines[i]])]
    both = pa.concat_tables([table, form.table(rows)])
    return both.take(pa.array(np.argsort(both.column("line").to_numpy())))


class TsvReader:
    """Where the columns are, and what becomes of each line: also of those without the declared
    form."""

    def __init__(self, spec: RowRules, file: InputFile, layout: Layout) -> None:
        self.spec = spec
        self.file = file
        self.columns = spec.columns or []
        self.text_columns = [self.columns.index(field) for field in layout.fields]
        self.extra_columns = [self.columns.index(field) for field in layout.extra]
        id_name = spec.id_among(self.columns)
        self.id_column = self.columns.index(id_name) if id_name is not None else None

    def rows(self, first: int, lines: list[Line]) -> Iterator[Row]:
        """The rows of consecutive lines, the first of which has that number."""
        for number, line in enumerate(lines, first):
            if isinstance(line, FaultyLine):
                yield self._faulty(number, line)
            else:
                yield self._row(number, line)._replace(replaced=isinstance(line, ReplacedLine))

    def _row(self, number: int, line: str) -> Row:
        cells = split_cells(line)
        name = self.file.name
        if len(cells) != len(self.columns):
            return self._blank(number) if _is_blank(cells) else self._wrong_width(number, len(cells), cells)
        row_id = generated_id(name, number) if self.id_column is None else cells[self.id_column]
        if not row_id or row_id.isspace():
            return self._blank(number) if _is_blank(cells) else self._without_id(number, cells)
        texts = tuple([cells[column] for column in self.text_columns])
        return make_row(
            row_id, texts, name, number, self.spec.max_chars, tuple([cells[column] for column in self.extra_columns])
        )

    def _previews(self, cells: list[str]) -> tuple[str, ...]:
        return tuple(cells[column] if column < len(cells) else "" for column in self.text_columns)

    def _blank(self, number: int) -> Row:
        name = self.file.name
        return make_row(generated_id(name, number), ("",) * len(self.text_columns), name, number, self.spec.max_chars)

    def _wrong_width(self, number: int, found: int, cells: list[str]) -> Row:
        columns = f"{found} column{'s' if found != 1 else ''} found"
        problem = f"{columns}, {len(self.columns)} declared ({', '.join(self.columns)}): declare them as they are"
        return bad_row(self.spec, self.file.path, self.file.name, number, self._previews(cells), problem)

    def _without_id(self, number: int, cells: list[str]) -> Row:
        problem = f"the id in column '{self.columns[self.id_column or 0]}' is empty: give the row an id"
        return bad_row(self.spec, self.file.path, self.file.name, number, self._previews(cells), problem)

    def _faulty(self, number: int, line: FaultyLine) -> Row:
        """A line with invalid UTF-8 or beyond all length; it keeps its own id if that can be read
        from its head."""
        cells = split_cells(line.head)
        if line.tabs + 1 != len(self.columns):
            return self._wrong_width(number, line.tabs + 1, cells)
        row_id = generated_id(self.file.name, number)
        if self.id_column is not None and self.id_column < len(cells) - (len(cells) != len(self.columns)):
            own = cells[self.id_column]
            row_id = own if own.strip() and "\ufffd" not in own else row_id
        return dropped(row_id, self._previews(cells), self.file.name, number, line.reason)


def _is_blank(cells: list[str]) -> bool:
    return all(not cell or cell.isspace() for cell in cells)
