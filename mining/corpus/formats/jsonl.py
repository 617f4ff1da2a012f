"""JSON lines: one object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa

from mining.config.corpus import RowRules
from mining.corpus.compression import Digest
from mining.corpus.formats import FORMATS, NO_ID, Format, Layout
from mining.corpus.inputs import InputFile
from mining.corpus.lines import FaultyLine, Line, ReplacedLine, numbered_lines, without_marks
from mining.corpus.rows import Row, TableForm, bad_row, dropped, generated_id, invalid_utf8_error, make_row
from mining.schemas import Reason

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonLinesFormat(Format):
    """JSON lines: fields by their names."""

    extensions = (".jsonl", ".ndjson")

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one file; ids are strings or integers.

        A dotted name (``translation.en``) is a field of an inner object, unless a field has that
        very name. Without `spec.id` the first object decides for the file: if it has a field
        ``id``, every row must.
        """
        reader = _JsonReader(spec, file, self.layout(spec, file.path))
        lines = numbered_lines(file.path, spec.invalid_utf8, spec.max_chars, digest)
        return TableForm(spec).tables(reader.line(number, line) for number, line in lines)


FORMATS.register("jsonl")(JsonLinesFormat())


class _UnfitError(Exception):
    """A line that is no row of the declared form; `texts` is what can be shown of it."""

    def __init__(self, problem: str, texts: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.texts = texts


class _JsonReader:
    def __init__(self, spec: RowRules, file: InputFile, layout: Layout) -> None:
        self.spec = spec
        self.file = file
        self.fields = layout.fields
        self.extra = layout.extra
        self.width = len(self.fields)
        self.id_field = spec.id
        self._id_settled = spec.id is not None
        wanted = [*layout.fields, *layout.extra, spec.id or "id"]
        self._names = {name for field in wanted for name in (field, *field.split("."))}
        self._keys = [json.dumps(name, ensure_ascii=False) for name in self._names]
        self._plain, self._careful = json.JSONDecoder(), json.JSONDecoder(object_pairs_hook=self._record)

    def line(self, number: int, line: Line) -> Row:
        name = self.file.name
        if isinstance(line, FaultyLine):
            head = without_marks(line.head)
            return dropped(generated_id(name, number), (head,) * self.width, name, number, line.reason)
        text = without_marks(line)
        if not text or text.isspace():
            return dropped(generated_id(name, number), ("",) * self.width, name, number, Reason.BLANK)
        row = self._row(number, text)
        return row._replace(replaced=True) if isinstance(line, ReplacedLine) else row

    def _row(self, number: int, line: str) -> Row:
        try:
            record = self._parsed(line)
            texts = self._texts(record)
            row_id = self._id(record, number, texts)
            extra = tuple([self._extra(record, field, texts) for field in self.extra]) if self.extra else ()
        except _UnfitError as unfit:
            previews = tuple(_SURROGATE.sub("\ufffd", text) for text in unfit.texts)
            previews += ("",) * (self.width - len(previews))
            problem = _SURROGATE.sub("\ufffd", " ".join(unfit.problem.split()))
            return bad_row(self.spec, self.file.path, self.file.name, number, previews, problem)
        if "\\u" in line and _SURROGATE_ESCAPE.search(line):
            return self._with_surrogates(row_id, texts, number, extra)
        return make_row(row_id, texts, self.file.name, number, self.spec.max_chars, extra)

    def _parsed(self, line: str) -> dict[str, object]:
        for key in self._keys:
            if line.count(key) > 1:
                # It may be a value, or a field of another object: only here is it worth while to
                # look at every pair.
                return _parsed(line, self._careful)
        return _parsed(line, self._plain)

    def _record(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        record = dict(pairs)
        if len(record) < len(pairs):
            names = [name for name, _ in pairs if name in self._names]
            if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
                raise _UnfitError(f"field '{twice}' stands twice: give each field a name of its own")
        return record

    def _texts(self, record: dict[str, object]) -> tuple[str, ...]:
        texts = []
        for field in self.fields:
            value = _value(record, field)
            if value is _MISSING:
                names = ", ".join(record)[:200] or "none"
                raise _UnfitError(f"no field '{field}' (fields found: {names}): name the right field")
            if not isinstance(value, str):
                raise _UnfitError(f"field '{field}' is {_kind(value)}, not a string: {_mend(field, value)}")
            texts.append(value)
        return tuple(texts)

    def _id(self, record: dict[str, object], number: int, texts: tuple[str, ...]) -> str:
        if not self._id_settled:
            self.id_field = "id" if "id" in record else ""
            self._id_settled = True
        if not self.id_field:
            return generated_id(self.file.name, number)
        value = _value(record, self.id_field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        problem = f"field '{self.id_field}' holds no id (a non-empty string or an integer): give the row an id, {NO_ID}"
        raise _UnfitError(problem, texts)

    def _extra(self, record: dict[str, object], field: str, texts: tuple[str, ...]) -> str:
        value = _value(record, field)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            found = "is missing" if value is _MISSING else f"is {_kind(value)}"
            raise _UnfitError(f"field '{field}' {found}: give it a string or a number", texts)
        return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else repr(value)

    def _with_surrogates(self, row_id: str, texts: tuple[str, ...], number: int, extra: tuple[str, ...]) -> Row:
        r"""Half a surrogate pair (``"\ud800"``) is no character and cannot be encoded: the policy
        on UTF-8 applies."""
        name = self.file.name
        cleaned = tuple(_SURROGATE.sub("\ufffd", text) for text in texts)
        clean_id = _SURROGATE.sub("\ufffd", row_id)
        if (cleaned, clean_id) == (texts, row_id) or self.spec.invalid_utf8 == "replace":
            row = make_row(clean_id, cleaned, name, number, self.spec.max_chars, extra)
            return row._replace(replaced=(cleaned, clean_id) != (texts, row_id))
        if self.spec.invalid_utf8 == "strict":
            raise invalid_utf8_error(self.file.path, number, "a lone surrogate such as \\ud800")
        own = row_id if clean_id == row_id else generated_id(name, number)
        return dropped(own, cleaned, name, number, Reason.INVALID_UTF8, extra)


_MISSING = object()


def _value(record: dict[str, object], field: str) -> object:
    """The value of a field, by its name or by the names on the way to it, between dots; `_MISSING`
    without one."""
    if field in record or "." not in field:
        return record.get(field, _MISSING)
    value: object = record
    for name in field.split("."):
        value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _mend(field: str, value: object) -> str:
    if not isinstance(value, dict):
        return "correct it"
    return f"name one of {', '.join(f'{field}.{name}' for name in value)[:200]}" if value else "name another field"


def _parsed(line: str, decoder: json.JSONDecoder) -> dict[str, object]:
    try:
        record = decoder.decode(line)
    except json.JSONDecodeError as error:
        raise _UnfitError(f"not valid JSON ({error.msg} at character {error.colno}): correct it", (line,)) from None
    except ValueError as error:
        raise _UnfitError(f"not usable JSON ({error}): correct it", (line,)) from None
    except RecursionError:
        raise _UnfitError("not usable JSON (nested too deeply): correct it", (line,)) from None
    if not isinstance(record, dict):
        raise _UnfitError(f"a JSON object was expected, not {_kind(record)}: write one object a line", (line,))
    return record


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return kinds.get(type(value), "an object")
