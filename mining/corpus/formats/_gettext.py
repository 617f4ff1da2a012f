r"""The parts of the gettext reader: the grammar of .po files, as ``msgfmt`` reads it, the binary
.mo files, and plural forms.

The parser of .po files is our own, since libraries take what ``msgfmt`` refuses and lose text over
it: a missing quotation mark costs the first or last character of a message without a word. The
grammar is small: comments, keywords, strings."""

from __future__ import annotations

import gettext
import re
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

_SPACE = " \t\r\f\v"
_PIECE = re.compile(
    r"""
    (?: (?P<keyword> [A-Za-z_$][A-Za-z0-9_$]* ) [ \t\r\f\v]*
        (?: \[ [ \t\r\f\v]* (?P<index> [0-9]{1,6} ) [ \t\r\f\v]* \] [ \t\r\f\v]* )? )?
    (?: " (?P<string> [^"\\]* (?: \\. [^"\\]* )* ) " [ \t\r\f\v]* )?
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([abfnrtv\"\\])|([0-7]{1,3})|x([0-9A-Fa-f]+)|.)")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}
_BEGINS_ENTRY = re.compile(r"(msgctxt|msgid|domain)(?![A-Za-z0-9_$])")
_FOLLOWERS = {
    "": ("msgctxt", "msgid", "domain"),
    "domain": (),
    "msgctxt": ("msgid",),
    "msgid": ("msgid_plural", "msgstr"),
    "msgid_plural": ("msgstr[0]",),
    "msgstr": (),
}
_MISSING = {
    "msgctxt": "a msgctxt without its msgid",
    "msgid": "a message without its msgstr",
    "msgid_plural": "a message with a plural but without msgstr[0]",
}
_BYTES = re.compile("[\udc80-\udcff]")


class Message(NamedTuple):
    """One message; `line` is that of its msgid, `comment` holds its extracted comments (``#.``)
    line by line.

    `plural` is None for a message without plural, which has one form.
    """

    line: int
    context: str | None
    source: str
    plural: str | None
    forms: tuple[str, ...]
    comment: tuple[str, ...] = ()
    fuzzy: bool = False
    obsolete: bool = False

    @property
    def is_header(self) -> bool:
        """The message without source text, whose translation says how the others are written."""
        return not self.source and self.context is None


class Fault(NamedTuple):
    """What is no message: its first faulty line, the problem, and the content of that line."""

    line: int
    problem: str
    content: str


class _FaultyError(Exception):
    """The problem of the line in hand."""


def parse_po(text: str, charset: str) -> Iterator[Message | Fault]:
    r"""The messages of a catalogue in their order, and a Fault for each that ``msgfmt`` would
    refuse.

    After a fault, reading goes on with the next line that begins a message or a comment. ``\n``
    alone ends a line. `charset` is the encoding that `text` was decoded from, undecodable bytes
    being surrogate escapes: ``\xNN`` and ``\NNN`` are bytes of it."""
    parser = _Parser(charset)
    for number, line in _lines(text):
        parser.read(number, line)
        if parser.done:
            yield from parser.done
            parser.done.clear()
    parser.finish()
    yield from parser.done


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that ends with a backslash goes on in the next, but for
    comments."""
    lines = enumerate(text.split("\n"), 1)
    for number, line in lines:
        if line.endswith("\\") and not line.lstrip(_SPACE).startswith("#"):
            parts = [line]
            while parts[-1].endswith("\\") and (more := next(lines, None)):
                parts[-1] = parts[-1][:-1]
                parts.append(more[1])
            line = "".join(parts)
        yield number, line


class _Parser:
    """Receives lines; `done` collects messages and faults."""

    def __init__(self, charset: str) -> None:
        self.charset = charset
        self.done: list[Message | Fault] = []
        self.slots: list[tuple[str, list[str]]] = []  # keyword and strings of the message in hand
        self.start = 0
        self.obsolete = False
        self.comment: list[str] = []
        self.fuzzy = False
        self.next_comment: list[str] = []
        self.next_fuzzy = False
        self.skipped = ""  # after a fault: the last keyword of the faulty message that began a line
        self.first: dict[tuple[str | None, str], int] = {}

    def read(self, number: int, line: str) -> None:
        line = line.strip(_SPACE)
        obsolete = False
        while line.startswith("#"):
            if not line.startswith("#~"):
                self._comment(line)
                return
            obsolete = True
            line = line[2:].lstrip(_SPACE)
            if line.startswith("|"):  # "#~|" is the former msgid, as "#|" is
                line = f"#{line}"
        if line and not (self.skipped and self._belongs_to_the_fault(line)):
            try:
                self._statements(number, line, obsolete)
            except _FaultyError as error:
                self.done.append(Fault(number, str(error), line))
                begins = _BEGINS_ENTRY.match(line)
                self.skipped = begins[1] if begins else "msgstr"
                self.slots = []

    def finish(self) -> None:
        """The message in hand is at its end."""
        slots, self.slots = self.slots, []
        if not slots or slots[0][0] == "domain":
            return
        last = slots[-1][0]
        problem = _MISSING.get(last, "")
        for keyword, strings in slots:
            if not strings:
                problem = f"{keyword} without a string"
        if problem:
            self.done.append(Fault(self.start, problem, " ".join(slots[0][1])))
        else:
            self._message({keyword: self._joined(strings) for keyword, strings in slots})

    def _belongs_to_the_fault(self, line: str) -> bool:
        begins = _BEGINS_ENTRY.match(line)
        if begins and not (self.skipped == "msgctxt" and begins[1] == "msgid"):
            self.skipped = ""
            return False
        self.skipped = begins[1] if begins else self.skipped
        return True

    def _comment(self, line: str) -> None:
        self.finish()
        if self.done and isinstance(self.done[-1], Fault):
            self.skipped = "msgstr"  # the rest of a message that a comment breaks
        kind = line[1:2]
        if kind == ".":
            self.next_comment.append(line[2:].strip(_SPACE))
        elif kind in (",", "!"):
            self.next_fuzzy |= "fuzzy" in re.split(r"[\s,]+", line[2:])

    def _statements(self, number: int, line: str, obsolete: bool) -> None:
        position = 0
        while position < len(line):
            piece = _PIECE.match(line, position)
            if piece is None or piece.end() == position:
                raise _FaultyError(_diagnosis(line[position:]))
            keyword, index, string = piece.groups()
            if keyword is not None:
                self._keyword(number, keyword, index, obsolete)
            if string is not None:
                if not self.slots:
                    raise _FaultyError("a string without a keyword")
                if self.obsolete != obsolete:
                    raise _FaultyError("a message of which only a part is marked as obsolete (#~)")
                if "\0" in string:
                    raise _FaultyError("a NUL character")
                self.slots[-1][1].append(_unescaped(string) if "\\" in string else string)
            position = piece.end()

    def _keyword(self, number: int, keyword: str, index: str | None, obsolete: bool) -> None:
        name = keyword if index is None else f"{keyword}[{int(index)}]"
        last = self.slots[-1][0] if self.slots else ""
        if name in _FOLLOWERS[""] and not (name == "msgid" and last == "msgctxt"):
            self.finish()
            self.obsolete = obsolete
            self.comment, self.next_comment = self.next_comment, []
            self.fuzzy, self.next_fuzzy = self.next_fuzzy, False
            if name == "domain":
                self.first.clear()
        elif name not in _followers(last):
            raise _FaultyError(_misplaced(keyword, name, last))
        if name == "msgid" or last == "":
            self.start = number
        self.slots.append((name, []))

    def _joined(self, strings: list[str]) -> str:
        text = "".join(strings)
        if _BYTES.search(text):  # bytes written as escapes may be one character together
            with suppress(UnicodeError):  # they stay invalid then
                text = text.encode(self.charset, "surrogateescape").decode(self.charset, "surrogateescape")
        return text

    def _message(self, texts: dict[str, str]) -> None:
        source, context = texts.pop("msgid"), texts.pop("msgctxt", None)
        plural = texts.pop("msgid_plural", None)
        if not self.obsolete:
            first = self.first.setdefault((context, source), self.start)
            if first != self.start:
                problem = f"a message is defined a second time (first in line {first})"
                self.done.append(Fault(self.start, problem, source))
                return
        forms = tuple(texts.values())
        comment = tuple(self.comment)
        self.done.append(Message(self.start, context, source, plural, forms, comment, self.fuzzy, self.obsolete))


def _followers(last: str) -> tuple[str, ...]:
    if last.endswith("]"):
        return (f"msgstr[{int(last[7:-1]) + 1}]",)
    return _FOLLOWERS[last]


def _unescaped(string: str) -> str:
    return _ESCAPE.sub(_character, string)


def _character(escape: re.Match[str]) -> str:
    named, octal, hexadecimal = escape.groups()
    if named is not None:
        return _ESCAPED[named]
    if octal is None and hexadecimal is None:
        raise _FaultyError(f"an unknown escape sequence ({escape[0]})")
    byte = (int(octal, 8) if octal else int(hexadecimal, 16)) & 0xFF
    if not byte:
        raise _FaultyError("a NUL character")
    return chr(byte if byte < 0x80 else 0xDC00 + byte)


def _diagnosis(rest: str) -> str:
    if rest.startswith('"'):
        return "a string without its closing quotation mark"
    return f"text outside of quotation marks ({_shortened(rest)})"


def _misplaced(keyword: str, name: str, last: str) -> str:
    if keyword not in (*_FOLLOWERS,):
        return f"text outside of quotation marks ({_shortened(keyword)})"
    expected = _followers(last) or _FOLLOWERS[""]
    return f"{name} where {' or '.join(expected)} should stand"


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}


def parse_mo(data: bytes, charset: str) -> Iterator[Message]:
    """The messages of a catalogue; undecodable bytes are surrogate escapes.

    `line` is the position of a message, from 1; the header stands before them all and is not
    counted.

    Raises ValueError or struct.error if the file is truncated or otherwise unsound.
    """
    order = _ORDERS.get(data[:4])
    if order is None:
        raise ValueError("it does not begin as a .mo file")
    revision, count, *tables = struct.unpack(f"{order}4I", data[4:20])
    if revision >> 16 > 1:
        raise ValueError(f"its revision {revision >> 16} is unknown")
    sources, translations = (_strings(data, order, table, count) for table in tables)
    first = 0 if b"" in sources[:1] else 1
    for position, (source, translation) in enumerate(zip(sources, translations, strict=True), first):
        context, separator, message = source.rpartition(b"\4")
        singular, *plural = message.split(b"\0", 1)
        forms = translation.split(b"\0") if plural else [translation]
        yield Message(
            position,
            _decoded(context, charset) if separator else None,
            _decoded(singular, charset),
            _decoded(plural[0], charset) if plural else None,
            tuple(_decoded(form, charset) for form in forms),
        )


def _strings(data: bytes, order: str, table: int, count: int) -> list[bytes]:
    if table + 8 * count > len(data):
        raise ValueError("it is truncated")
    bounds = list(struct.iter_unpack(f"{order}2I", data[table : table + 8 * count]))
    if any(offset + length > len(data) for length, offset in bounds):
        raise ValueError("it is truncated")
    if sum(length for length, _ in bounds) > 4 * len(data):  # a small file must not become a large one
        raise ValueError("its strings overlap")
    return [data[offset : offset + length] for length, offset in bounds]


def _decoded(text: bytes, charset: str) -> str:
    return text.decode(charset, "surrogateescape")


_HEADER = re.compile(r"^Plural-Forms:\s*nplurals\s*=\s*([0-9]{1,3})\s*;\s*plural\s*=([^;\n]*)", re.I | re.M)
_NUMBERS = range(202)
"""Numbers for which a rule is tried: no language distinguishes more than their last two digits, but
for millions."""


class PluralForms(NamedTuple):
    """How many forms a translation has, and the indices of those for singular and plural."""

    total: int
    singular: int
    plural: int


def plural_forms(header: str) -> PluralForms | None:
    """What the line ``Plural-Forms`` of a catalogue's header says; None if it is absent or cannot
    be a rule.

    The singular of the source has the form for 1. Its plural has the form for most numbers from 2
    to 201: neither that for 0 (Latvian's last) nor those for 2 or a few (Arabic, Welsh) nor that
    for fractions (the fourth of Slavic languages), which no whole number has.
    """
    found = _HEADER.search(header)
    return _by_rule(int(found[1]), found[2].strip()) if found else None


@lru_cache(maxsize=256)
def _by_rule(count: int, expression: str) -> PluralForms | None:
    try:
        # The parser of the standard library: it takes C's arithmetic on n and nothing else, up to
        # 1,000 characters.
        rule = gettext.c2py(expression)
        forms = [rule(number) for number in _NUMBERS]
    except (ValueError, ArithmeticError, SyntaxError, RecursionError, MemoryError):
        return None
    if not all(0 <= form < count for form in forms):
        return None
    return PluralForms(count, forms[1], Counter(forms[2:]).most_common(1)[0][0])
