"""TSV with declared columns: no header, no quoting, every tab separates."""

from __future__ import annotations

from collections.abc import Iterator

from mining.corpus.compression import Digest
from mining.corpus.lines import FaultyLine, Line, read_lines
from mining.corpus.rows import Row, bad_row, dropped, generated_id, make_row
from mining.corpus.spec import InputFile, Layout, RowRules


def read_tsv(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one TSV file; the id comes from the column `spec.id`, by default ``id`` if such a column is declared."""
    reader = TsvReader(spec, file, layout)
    for first, lines in read_lines(file.path, spec.invalid_utf8, spec.max_chars, digest):
        yield from reader.rows(first, lines)


class TsvReader:
    """The places of the columns, and what becomes of each line: also of those without the declared form."""

    def __init__(self, spec: RowRules, file: InputFile, layout: Layout) -> None:
        self.spec = spec
        self.file = file
        self.columns = spec.columns or []
        self.text_places = [self.columns.index(field) for field in layout.fields]
        self.extra_places = [self.columns.index(field) for field in layout.extra]
        id_name = spec.id if spec.id is not None else "id"
        self.id_place = self.columns.index(id_name) if id_name in self.columns else None

    def rows(self, first: int, lines: list[Line]) -> Iterator[Row]:
        """The rows of consecutive lines, the first of which has that number."""
        name, max_chars, width = self.file.name, self.spec.max_chars, len(self.columns)
        places, id_place, extra_places = self.text_places, self.id_place, self.extra_places
        text_place = places[0] if len(places) == 1 else None
        for number, line in enumerate(lines, first):
            if isinstance(line, FaultyLine):
                yield self.faulty(number, line)
                continue
            cells = line.split("\t")
            if len(cells) != width:
                yield self.misshapen(number, line, cells)
                continue
            row_id = f"{name}:{number}" if id_place is None else cells[id_place]
            if not row_id or row_id.isspace():
                yield self.without_id(number, line, cells)
                continue
            texts = (cells[text_place],) if text_place is not None else tuple([cells[place] for place in places])
            extra = tuple([cells[place] for place in extra_places]) if extra_places else ()
            yield make_row(row_id, texts, name, number, max_chars, extra)

    def previews(self, cells: list[str]) -> tuple[str, ...]:
        return tuple(cells[place] if place < len(cells) else "" for place in self.text_places)

    def misshapen(self, number: int, line: str, cells: list[str]) -> Row:
        if not line or line.isspace():
            return self.blank(number)
        return self.wrong_width(number, len(cells), self.previews(cells))

    def blank(self, number: int) -> Row:
        name = self.file.name
        return make_row(generated_id(name, number), ("",) * len(self.text_places), name, number, self.spec.max_chars)

    def wrong_width(self, number: int, found: int, texts: tuple[str, ...]) -> Row:
        columns = f"{found} column{'s' if found != 1 else ''} found"
        problem = f"{columns}, {len(self.columns)} declared ({', '.join(self.columns)}): declare them as they are"
        return bad_row(self.spec, self.file.path, self.file.name, number, texts, problem)

    def without_id(self, number: int, line: str, cells: list[str]) -> Row:
        if line.isspace():
            return self.blank(number)
        problem = f"the id in column '{self.columns[self.id_place or 0]}' is empty: give the row an id"
        return bad_row(self.spec, self.file.path, self.file.name, number, self.previews(cells), problem)

    def faulty(self, number: int, line: FaultyLine) -> Row:
        """A line with invalid UTF-8 or beyond all length; it keeps its own id if that can be read from its head."""
        cells = line.head.split("\t")
        if line.tabs + 1 != len(self.columns):
            return self.wrong_width(number, line.tabs + 1, self.previews(cells))
        row_id = generated_id(self.file.name, number)
        if self.id_place is not None and self.id_place < len(cells) - (len(cells) != len(self.columns)):
            own = cells[self.id_place]
            row_id = own if own.strip() and "\ufffd" not in own else row_id
        return dropped(row_id, self.previews(cells), self.file.name, number, line.reason)
