"""Plain text: a line is a row; a bitext is two files aligned by line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from mining.corpus.compression import Digest
from mining.corpus.lines import FaultyLine, Line, numbered_lines, read_lines
from mining.corpus.rows import BLANK, INVALID_UTF8, TOO_LONG, Row, dropped, generated_id, make_row
from mining.corpus.spec import InputFile, Layout, RowRules
from mining.errors import InputError


def read_text(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one plain text file, or of the two files of a bitext (one text or two a row)."""
    if file.target_path is None:
        return _read_single(spec, file, digest)
    return _read_aligned(spec, file, file.target_path, digest)


def _read_single(spec: RowRules, file: InputFile, digest: Digest | None) -> Iterator[Row]:
    for first, lines in read_lines(file.path, spec.invalid_utf8, spec.max_chars, digest):
        yield from line_rows(file.name, spec.max_chars, first, lines)


def line_rows(name: str, max_chars: int, first: int, lines: list[Line]) -> Iterator[Row]:
    """The rows of consecutive lines of the file `name`, the first of which has that number."""
    for number, line in enumerate(lines, first):
        row_id = f"{name}:{number}"
        # Written out, not through make_row: this loop runs a million times a second or so.
        if isinstance(line, FaultyLine):
            yield dropped(row_id, (line.head,), name, number, line.reason)
        elif len(line) > max_chars:
            yield dropped(row_id, (line,), name, number, TOO_LONG)
        elif not line or line.isspace():
            yield dropped(row_id, (line,), name, number, BLANK)
        else:
            yield Row(row_id, (line,), name, number, None)


def _read_aligned(spec: RowRules, file: InputFile, target_path: str, digest: Digest | None) -> Iterator[Row]:
    """Rows of two line-aligned files; raises InputError at the end if they do not have the same number of lines."""
    sides = (
        numbered_lines(file.path, spec.invalid_utf8, spec.max_chars, digest),
        numbered_lines(target_path, spec.invalid_utf8, spec.max_chars),
    )
    counts = [0, 0]
    for pair in zip_longest(*sides):
        numbers = [entry[0] if entry else counts[side] for side, entry in enumerate(pair)]
        source, target = pair
        if source is not None and target is not None:
            yield _pair_row(file.name, source[0], source[1], target[1], spec.max_chars)
        counts = numbers
    if counts[0] != counts[1]:
        raise InputError(
            f"{file.path} has {counts[0]} lines but {target_path} has {counts[1]}: "
            "the two files of a bitext must be aligned line by line"
        )


def _pair_row(name: str, number: int, source: Line, target: Line, max_chars: int) -> Row:
    row_id = generated_id(name, number)
    faults = [line.reason for line in (source, target) if isinstance(line, FaultyLine)]
    texts = (_text(source), _text(target))
    if faults:
        return dropped(row_id, texts, name, number, INVALID_UTF8 if INVALID_UTF8 in faults else faults[0])
    return make_row(row_id, texts, name, number, max_chars)


def _text(line: Line) -> str:
    return line.head if isinstance(line, FaultyLine) else line
