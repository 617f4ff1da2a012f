"""JSON lines: one object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mining.corpus.compression import Digest
from mining.corpus.lines import FaultyLine, numbered_lines
from mining.corpus.rows import BLANK, INVALID_UTF8, Row, bad_row, dropped, generated_id, invalid_utf8_error, make_row
from mining.corpus.spec import InputFile, Layout, RowRules

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_jsonl(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one file; ids are strings or integers.

    Without `spec.id` the first object decides for the file: if it has a field ``id``, every row must.
    """
    reader = _JsonReader(spec, file, layout)
    for number, line in numbered_lines(file.path, spec.invalid_utf8, spec.max_chars, digest):
        if isinstance(line, FaultyLine):
            yield dropped(generated_id(file.name, number), (line.head,) * reader.width, file.name, number, line.reason)
        elif not line or line.isspace():
            yield dropped(generated_id(file.name, number), ("",) * reader.width, file.name, number, BLANK)
        else:
            yield reader.row(number, line)


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

    def row(self, number: int, line: str) -> Row:
        try:
            record = _parsed(line)
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

    def _texts(self, record: dict[str, Any]) -> tuple[str, ...]:
        for field in self.fields:
            if field not in record:
                names = ", ".join(record)[:200] or "none"
                raise _UnfitError(f"no field '{field}' (fields found: {names}): name the right field")
            if not isinstance(record[field], str):
                raise _UnfitError(f"field '{field}' is {_kind(record[field])}, not a string: correct it")
        return tuple([record[field] for field in self.fields])

    def _id(self, record: dict[str, Any], number: int, texts: tuple[str, ...]) -> str:
        if not self._id_settled:
            self.id_field = "id" if "id" in record else None
            self._id_settled = True
        if self.id_field is None:
            return generated_id(self.file.name, number)
        value = record.get(self.id_field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        problem = f"field '{self.id_field}' holds no id (a non-empty string or an integer): give the row an id"
        raise _UnfitError(problem, texts)

    def _extra(self, record: dict[str, Any], field: str, texts: tuple[str, ...]) -> str:
        value = record.get(field)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            found = f"is {_kind(value)}" if field in record else "is missing"
            raise _UnfitError(f"field '{field}' {found}: give it a string or a number", texts)
        return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else repr(value)

    def _with_surrogates(self, row_id: str, texts: tuple[str, ...], number: int, extra: tuple[str, ...]) -> Row:
        r"""Half a surrogate pair (``"\ud800"``) is no character and cannot be encoded: the policy on UTF-8 applies."""
        name = self.file.name
        cleaned = tuple(_SURROGATE.sub("\ufffd", text) for text in texts)
        clean_id = _SURROGATE.sub("\ufffd", row_id)
        if (cleaned, clean_id) == (texts, row_id) or self.spec.invalid_utf8 == "replace":
            return make_row(clean_id, cleaned, name, number, self.spec.max_chars, extra)
        if self.spec.invalid_utf8 == "strict":
            raise invalid_utf8_error(self.file.path, number, "a lone surrogate such as \\ud800")
        own = row_id if clean_id == row_id else generated_id(name, number)
        return dropped(own, cleaned, name, number, INVALID_UTF8, extra)


def _parsed(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise _UnfitError(f"not valid JSON ({error.msg} at character {error.colno}): correct it", (line,)) from None
    except ValueError as error:
        raise _UnfitError(f"not usable JSON ({error}): correct it", (line,)) from None
    except RecursionError:
        raise _UnfitError("not usable JSON (nested too deeply): correct it", (line,)) from None
    if not isinstance(record, dict):
        raise _UnfitError(f"a JSON object was expected, not {_kind(record)}: write one object a line", (line,))
    return record


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return kinds.get(type(value), "an object")
