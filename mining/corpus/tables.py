"""Rows of a corpus as Arrow tables: what `read_file` yields, for text and TSV without a Python object a row.

Blocks of lines are cut by kernels. Whatever is unusual (a line of another width, a row without an id, invalid UTF-8, a
line beyond all length, another format) goes through the readers row by row, so that rows and errors are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.corpus.cells import cut, find_cells, inspect, strings
from mining.corpus.compression import Digest
from mining.corpus.delimited import TsvReader
from mining.corpus.lines import Line, read_blocks, split_lines
from mining.corpus.reader import read_file
from mining.corpus.rows import BLANK, PREVIEW_CHARS, TOO_LONG, Row, row_blocks
from mining.corpus.spec import CorpusSpec, InputFile, layout
from mining.corpus.text import line_rows

#: The fields of `Row`, the text alone for its texts.
ROWS_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string())]
)
#: Rows turned into Arrow at a time: Python strings cost several times their text.
_BLOCK_ROWS, _BLOCK_CHARS = 8192, 4_000_000
_REASONS = pa.array([BLANK, TOO_LONG], pa.string())


def read_tables(spec: CorpusSpec, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
    """The rows of one file of `spec` as tables of `ROWS_SCHEMA` (n rows each), in constant memory.

    Rows, their order and the errors are those of `mining.corpus.read_file`. After the last table `digest` has been
    given the file's bytes as they lie on disk: with `new_digest` it is the `file_hash` of what was read.
    """
    shape = layout(spec, file.path)
    # A name with bytes that are no UTF-8 is left to the rows, and so is what becomes of it.
    by_lines = shape.format in ("text", "tsv") and file.name.isprintable()
    if not by_lines:
        for rows in row_blocks(read_file(spec, file, digest), _BLOCK_ROWS, _BLOCK_CHARS):
            yield rows_table(rows)
        return
    reader = _TsvTables(spec, file) if shape.format == "tsv" else _TextTables(spec, file)
    for first, block in read_blocks(file.path, spec.invalid_utf8, spec.max_chars, digest=digest):
        if isinstance(block, bytes):
            yield reader.table(first, block)
        else:
            for rows in row_blocks(reader.rows(first, block), _BLOCK_ROWS, _BLOCK_CHARS):
                yield rows_table(rows)


def rows_table(rows: list[Row]) -> pa.Table:
    """Rows of one text each as a table."""
    columns = [
        [row.id for row in rows],
        [row.texts[0] for row in rows],
        [row.file for row in rows],
        [row.line for row in rows],
        [row.reason for row in rows],
    ]
    return pa.table(columns, schema=ROWS_SCHEMA)


class _Cut:
    """One column of texts of a block: bounds, characters and reasons of its rows."""

    def __init__(self, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self.data, self.starts, self.stops = data, np.ascontiguousarray(starts), np.array(stops)

    def judged(self, max_chars: int, preview_blank: bool) -> tuple[pa.Array, pa.Array]:
        """Texts (previews of those that are dropped for good) and reasons, as `make_row` and `dropped` give them."""
        chars, blank = inspect(self.data, self.starts, self.stops)
        long = chars > max_chars
        shortened = np.flatnonzero(long | blank if preview_blank else long)
        if len(shortened):
            cut((self.data, self.starts, self.stops, chars), shortened, PREVIEW_CHARS)
        texts = strings(self.data, self.starts, self.stops)
        if not (long.any() or blank.any()):
            return texts, pa.nulls(len(texts), pa.string())
        reasons = pa.array(np.where(long, 1, 0), mask=~(long | blank))
        return texts, _REASONS.take(reasons)


def _table(name: str, lines: NDArray[np.int64], ids: pa.Array | None, texts: pa.Array, reasons: pa.Array) -> pa.Table:
    numbers = pa.array(lines)
    if ids is None:
        ids = pc.binary_join_element_wise(name, numbers.cast(pa.string()), ":")
    columns = [ids, texts, pa.repeat(pa.scalar(name, pa.string()), len(texts)), numbers, reasons]
    return pa.table(columns, schema=ROWS_SCHEMA)


class _TextTables:
    """Plain text: a line is a row."""

    def __init__(self, spec: CorpusSpec, file: InputFile) -> None:
        self.name, self.max_chars = file.name, spec.max_chars

    def rows(self, first: int, lines: list[Line]) -> Iterator[Row]:
        """Row by row."""
        return line_rows(self.name, self.max_chars, first, lines)

    def table(self, first: int, block: bytes) -> pa.Table:
        """A block of valid UTF-8."""
        cells = find_cells(block, 1, separator=-1)
        texts = _Cut(cells.data, cells.starts[:, 0], cells.stops[:, 0]).judged(self.max_chars, preview_blank=True)
        return _table(self.name, np.arange(first, first + len(cells.tabs)), None, *texts)


class _TsvTables:
    """TSV with declared columns."""

    def __init__(self, spec: CorpusSpec, file: InputFile) -> None:
        self.reader = TsvReader(spec, file, layout(spec, file.path))
        self.name, self.max_chars = file.name, spec.max_chars
        self.rows: Callable[[int, list[Line]], Iterator[Row]] = self.reader.rows

    def table(self, first: int, block: bytes) -> pa.Table:
        """A block of valid UTF-8; its unusual lines go through the reader of rows."""
        cells = find_cells(block, len(self.reader.columns))
        usual, id_place, text_place = cells.whole, self.reader.id_place, self.reader.text_places[0]
        if id_place is not None:
            usual &= ~inspect(cells.data, cells.starts[:, id_place].copy(), cells.stops[:, id_place].copy())[1]
        chosen = np.flatnonzero(usual)
        starts, stops = cells.starts[chosen], cells.stops[chosen]
        ids = None if id_place is None else strings(cells.data, starts[:, id_place], stops[:, id_place])
        texts = _Cut(cells.data, starts[:, text_place], stops[:, text_place]).judged(self.max_chars, False)
        table = _table(self.name, first + chosen, ids, *texts)
        return table if len(chosen) == len(usual) else self._with_unusual(table, first, block, np.flatnonzero(~usual))

    def _with_unusual(self, table: pa.Table, first: int, block: bytes, unusual: NDArray[np.int64]) -> pa.Table:
        lines = split_lines(block)
        rows = [row for i in unusual.tolist() for row in self.reader.rows(first + i, [lines[i]])]
        both = pa.concat_tables([table, rows_table(rows)])
        return both.take(pa.array(np.argsort(both.column("line").to_numpy())))
