"""gettext catalogues (.po and .mo): translated messages as rows, through polib."""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Iterator
from typing import Any, cast

import polib

from mining.corpus.compression import Digest, read_all
from mining.corpus.rows import INVALID_UTF8, Row, dropped, generated_id, invalid_utf8_error, make_row
from mining.corpus.spec import InputFile, Layout, RowRules, without_compression
from mining.errors import InputError

_CHARSET = re.compile(r"Content-Type:[^\n]*?charset=([\w.:-]+)", re.IGNORECASE)
_ESCAPED = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\([nt\"\\])")
_DEFAULT = re.compile(r'^\s*Default:\s*(".*")\s*$')
_CONTINUED = re.compile(r'^\s*(".*")\s*$')


def read_catalogue(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one catalogue; the record number counts the rows.

    The header and obsolete, fuzzy and untranslated entries are no rows. An entry with plural forms gives two: the
    singular with the first form and the plural with the last. Where the msgid is a key and the extracted comment says
    ``Default: "..."`` (Plone's convention), that default is the source text; .mo files have no comments. A file is read
    whole: catalogues are small.
    """
    for number, (place, source, translation) in enumerate(_messages(file.path, digest), 1):
        values = {"msgid": source, "msgstr": translation}
        texts = tuple(values[field] for field in layout.fields)
        cleaned = tuple(_ESCAPED.sub("\ufffd", text) for text in texts)
        row_id = generated_id(file.name, number)
        if cleaned != texts and spec.invalid_utf8 == "strict":
            where = "entry" if _is_mo(file.path) else "line"
            raise invalid_utf8_error(file.path, place, "or not of the charset that the header declares", where)
        if cleaned != texts and spec.invalid_utf8 == "skip":
            yield dropped(row_id, cleaned, file.name, number, INVALID_UTF8)
        else:
            yield make_row(row_id, cleaned, file.name, number, spec.max_chars)


def _messages(path: str, digest: Digest | None) -> Iterator[tuple[int, str, str]]:
    """Line (.po) or entry number (.mo), source text and translation; undecodable bytes are surrogate escapes."""
    data = read_all(path, digest)
    try:
        entries = _mo_entries(data) if _is_mo(path) else _po_entries(data)
    except (OSError, ValueError, IndexError, KeyError, struct.error) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{path}: not a sound gettext catalogue ({problem}): correct it or fetch it again") from None
    for place, entry in entries:
        if not entry.msgid or entry.obsolete or "fuzzy" in entry.flags or not _translated(entry):
            continue
        if not (entry.msgid_plural and entry.msgstr_plural):
            yield place, _source_text(entry), entry.msgstr
        else:
            forms = [entry.msgstr_plural[index] for index in sorted(entry.msgstr_plural)]
            yield place, entry.msgid, forms[0]
            yield place, entry.msgid_plural, forms[-1]


def _is_mo(path: str) -> bool:
    return without_compression(path).lower().endswith(".mo")


def _translated(entry: Any) -> bool:
    """Whether there is a translation in every plural form (polib's own test does not work on .mo entries)."""
    return all(entry.msgstr_plural.values()) if entry.msgstr_plural else bool(entry.msgstr)


class _Content(str):
    r"""The text of a .po file for polib, which would split a plain string also at U+2028, VT or U+0085."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self.split("\n")
        return [f"{line}\n" for line in lines] if keepends else lines


def _po_entries(data: bytes) -> list[tuple[int, Any]]:
    data = data.removeprefix(codecs.BOM_UTF8)
    charset = _charset(data.decode("latin-1"))
    # polib takes its argument for the content only if there is no file of that name: the line feed makes sure.
    content = _Content(data.decode(charset, "surrogateescape") + "\n")
    return [(entry.linenum or 0, entry) for entry in polib.pofile(content)]


def _mo_entries(data: bytes) -> list[tuple[int, Any]]:
    _check_mo(data)
    # Latin-1 keeps the bytes as they are, so that the charset, with our treatment of errors, can be applied after.
    catalogue = polib.mofile(cast(Any, data), encoding="latin-1")  # the stubs forget that it takes bytes
    charset = _charset("\n".join(f"{key}: {value}" for key, value in catalogue.metadata.items()))

    def decoded(text: str) -> str:
        return text.encode("latin-1").decode(charset, "surrogateescape")

    for entry in catalogue:
        entry.msgid, entry.msgid_plural = decoded(entry.msgid), decoded(entry.msgid_plural)
        entry.msgstr = decoded(entry.msgstr)
        entry.msgstr_plural = {index: decoded(form) for index, form in entry.msgstr_plural.items()}
    return list(enumerate(catalogue, 1))


def _check_mo(data: bytes) -> None:
    """polib reads a truncated .mo without a word: raises ValueError if a string lies beyond the end of the file."""
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(data[:4])
    if order is None:
        raise ValueError("it does not begin as a .mo file")
    _, count, *tables = struct.unpack(f"{order}4I", data[4:20])
    for table in tables:
        for length, offset in struct.iter_unpack(f"{order}2I", data[table : table + 8 * count]):
            if offset + length > len(data):
                raise ValueError("it is truncated")
        if table + 8 * count > len(data):
            raise ValueError("it is truncated")


def _charset(header: str) -> str:
    """The charset that the header declares; UTF-8 where it declares none that exists."""
    found = _CHARSET.search(header)
    try:
        return codecs.lookup(found.group(1)).name if found else "utf-8"
    except LookupError:
        return "utf-8"


def _source_text(entry: Any) -> str:
    """The msgid, or the default that the extracted comment gives for it, possibly over several quoted lines."""
    parts: list[str] = []
    for line in entry.comment.split("\n"):
        found = (_CONTINUED if parts else _DEFAULT).match(line)
        if found:
            parts.append(_unquoted(found.group(1)))
        elif parts:
            break
    return "".join(parts) or entry.msgid


def _unquoted(literal: str) -> str:
    return _ESCAPE.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), literal[1:-1])
