"""Plain text: a line is a row; a bitext is two files aligned by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mining.config.corpus import RowRules
from mining.corpus.cells import find_cells, strings
from mining.corpus.compression import Digest
from mining.corpus.formats import FORMATS, Format, refuse_fields
from mining.corpus.inputs import InputFile
from mining.corpus.lines import FaultyLine, Line, ReplacedLine, read_blocks, without_marks
from mining.corpus.rows import Row, TableForm, TextColumn, dropped, generated_id, judged, make_row
from mining.errors import InputError, UsageError
from mining.schemas import Reason


class TextFormat(Format):
    """Plain text: neither columns nor ids."""

    extensions = (".txt", ".text")
    aligned = True

    def check(self, spec: RowRules, fields: tuple[str, ...], path: str) -> None:
        """See `Format.check`."""
        refuse_fields(spec, "text", path)
        if spec.columns is not None:
            raise UsageError(f"{path}: plain text has no columns: set format: tsv, or leave out `columns`")

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one file, or of the two files of a bitext (one text or two a row)."""
        if file.target_path is None:
            return _read_single(spec, file, digest)
        return _read_aligned(spec, file, file.target_path, digest)


FORMATS.register("text")(TextFormat())


def _read_single(spec: RowRules, file: InputFile, digest: Digest | None) -> Iterator[pa.Table]:
    form = TableForm(spec)
    for first, block in read_blocks(file.path, spec.invalid_utf8, spec.max_chars, digest=digest):
        if isinstance(block, bytes):
            cells = find_cells(block, 1, separator=-1)
            column = TextColumn(cells.data, cells.starts[:, 0].copy(), cells.stops[:, 0].copy())
            lines = np.arange(first, first + len(cells.tabs))
            yield form.of_columns(file.name, lines, *judged([column], spec.max_chars))
        else:
            yield from form.tables(line_rows(file.name, spec.max_chars, first, block))


def line_rows(name: str, max_chars: int, first: int, lines: list[Line]) -> Iterator[Row]:
    """The rows of consecutive lines of the file `name`, the first of which has that number."""
    for number, line in enumerate(lines, first):
        row_id = generated_id(name, number)
        if isinstance(line, FaultyLine):
            yield dropped(row_id, (without_marks(line.head),), name, number, line.reason)
        else:
            row = make_row(row_id, (without_marks(line),), name, number, max_chars)
            yield row._replace(replaced=isinstance(line, ReplacedLine))


class _Side(NamedTuple):
    """n lines of one file of a bitext: texts, whole or heads, with the reasons of those that are a
    `FaultyLine`."""

    texts: pa.Array
    faults: pa.Array
    replaced: pa.Array

    def cut(self, start: int, stop: int | None = None) -> _Side:
        return _Side(*(column[start:stop] for column in self))


def _side_blocks(spec: RowRules, path: str, digest: Digest | None) -> Iterator[_Side]:
    for _, block in read_blocks(path, spec.invalid_utf8, spec.max_chars, digest=digest):
        if isinstance(block, bytes):
            cells = find_cells(block, 1, separator=-1)
            texts = strings(cells.data, cells.starts[:, 0], cells.stops[:, 0])
            yield _Side(texts, pa.nulls(len(texts), pa.string()), pa.repeat(False, len(texts)))
        else:
            heads = [without_marks(line.head if isinstance(line, FaultyLine) else line) for line in block]
            faults = [line.reason if isinstance(line, FaultyLine) else None for line in block]
            replaced = [isinstance(line, ReplacedLine) for line in block]
            yield _Side(pa.array(heads, pa.string()), pa.array(faults, pa.string()), pa.array(replaced))


def _read_aligned(spec: RowRules, file: InputFile, target_path: str, digest: Digest | None) -> Iterator[pa.Table]:
    """Rows of two line-aligned files; raises InputError at the end if they do not have the same
    number of lines."""
    form = TableForm(spec)
    sides = _side_blocks(spec, file.path, digest), _side_blocks(spec, target_path, None)
    nothing = _Side(pa.array([], pa.string()), pa.array([], pa.string()), pa.array([], pa.bool_()))
    held, done = [nothing, nothing], 0
    while True:
        held = [lines if len(lines.texts) else next(blocks, nothing) for lines, blocks in zip(held, sides, strict=True)]
        shared = min(len(lines.texts) for lines in held)
        if not shared:
            break
        yield _pairs(form, spec, file.name, done + 1, [lines.cut(0, shared) for lines in held])
        held = [lines.cut(shared) for lines in held]
        done += shared
    if any(len(lines.texts) for lines in held):
        rest = [sum(len(lines.texts) for lines in blocks) for blocks in sides]
        counts = [done + len(lines.texts) + more for lines, more in zip(held, rest, strict=True)]
        raise InputError(
            f"{file.path} has {counts[0]} lines but {target_path} has {counts[1]}: "
            "the two files of a bitext must be aligned line by line"
        )


def _pairs(form: TableForm, spec: RowRules, name: str, first: int, sides: list[_Side]) -> pa.Table:
    """The rows of as many lines of either side."""
    columns = [TextColumn.of(side.texts) for side in sides]
    lines = np.arange(first, first + len(sides[0].texts))
    replaced = pc.or_(sides[0].replaced, sides[1].replaced)
    if all(side.faults.null_count == len(lines) for side in sides):
        return form.of_columns(name, lines, *judged(columns, spec.max_chars), replaced=replaced)
    pairs = zip(*(side.faults.to_pylist() for side in sides), strict=True)
    faults = pa.array(
        [Reason.INVALID_UTF8 if Reason.INVALID_UTF8 in pair else pair[0] or pair[1] for pair in pairs], pa.string()
    )
    texts, reasons = judged(columns, spec.max_chars, faults.is_valid().to_numpy(zero_copy_only=False))
    return form.of_columns(name, lines, texts, pc.coalesce(faults, reasons), replaced=replaced)
