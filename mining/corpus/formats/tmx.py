"""TMX: a translation unit is a row; read as a stream, with entities and external references
refused."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import ErrorString
from xml.parsers.expat.errors import XML_ERROR_BAD_CHAR_REF, XML_ERROR_INVALID_TOKEN, codes

import pyarrow as pa
from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]
from defusedxml.ElementTree import DefusedXMLParser  # type: ignore[import-untyped]

from mining.config.corpus import BitextSpec, RowRules
from mining.corpus.compression import BrokenStreamError, Digest, read_pieces
from mining.corpus.formats import FORMATS, Format, Layout, refuse_fields
from mining.corpus.formats._tmx import FORBIDDEN, INVALID_BYTES, Unit, Units, xml_as_utf8
from mining.corpus.inputs import InputFile
from mining.corpus.rows import Row, TableForm, bad_row, dropped, generated_id, make_row
from mining.errors import InputError, UsageError
from mining.schemas import Reason

_KEPT = 1 << 16
"""Bytes of the pieces before that the parser may not have looked at yet."""

_MARKS = (INVALID_BYTES.encode(), FORBIDDEN.encode())


class TmxFormat(Format):
    """TMX: the text fields are language codes."""

    extensions = (".tmx",)

    def check(self, spec: RowRules, fields: tuple[str, ...], path: str) -> None:
        """See `Format.check`."""
        if isinstance(spec, BitextSpec) and not (spec.source and spec.target):
            raise UsageError(f"{path}: TMX needs two language codes, for example source: en and target: de")
        refuse_fields(spec, "tmx", path, only_id="tuid")

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one file; language codes are compared without case.

        ``de`` also takes ``de-AT`` where a unit has no plain ``de``, and ``de-AT`` takes ``de``. A
        unit without the language is a blank row; a file in which no unit has it raises UsageError
        naming the languages there are. Faulty XML raises InputError with its line. A unit with a
        character that XML does not allow is a bad row; ``invalid_utf8: replace`` and ``skip`` do
        with it as with invalid bytes.
        """
        return TableForm(spec).tables(unit_rows(spec, file, self.layout(spec, file.path), digest))


FORMATS.register("tmx")(TmxFormat())


def unit_rows(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """The units of a file as rows."""
    target = Units(layout.fields, spec.max_chars)
    number = 0
    for piece in _parsed(file.path, target, spec, digest):
        for unit in piece:
            number += 1
            yield _row(spec, file, number, unit)
    for field, met in zip(layout.fields, target.met, strict=True):
        if number and not met:
            languages = ", ".join(sorted(target.known)) or "none"
            raise UsageError(f"{file.path}: no unit has the language '{field}': name one of {languages}")


def _row(spec: RowRules, file: InputFile, number: int, unit: Unit) -> Row:
    generated = generated_id(file.name, number)
    tuid, texts = unit
    replaced = _marks(spec) and _is_marked("".join((tuid if spec.id else "", *texts)))
    if replaced:
        reason = _reason(spec, unit)
        tuid, texts = _cleaned(tuid), tuple(map(_cleaned, texts))
        if reason:
            own = tuid if spec.id and tuid.strip() and tuid == unit.tuid else generated
            return dropped(own, texts, file.name, number, reason)
    if not spec.id:
        return make_row(generated, texts, file.name, number, spec.max_chars)._replace(replaced=replaced)
    if not tuid.strip():
        problem = "the translation unit has no tuid: give it one, leave out `id`"
        return bad_row(spec, file.path, file.name, number, texts, problem, "unit")
    return make_row(tuid, texts, file.name, number, spec.max_chars)._replace(replaced=replaced)


def _marks(spec: RowRules) -> bool:
    """Whether characters that XML does not allow are marked, instead of refused."""
    return spec.invalid_utf8 != "strict" or spec.on_bad_row == "skip"


def _is_marked(text: str) -> bool:
    return INVALID_BYTES in text or FORBIDDEN in text


def _reason(spec: RowRules, unit: Unit) -> str | None:
    """Why a unit with marked characters is left out, if it is."""
    read = (*unit.texts, unit.tuid) if spec.id else unit.texts
    forbidden = any(FORBIDDEN in text for text in read)
    if forbidden and spec.invalid_utf8 != "replace" and spec.on_bad_row == "skip":
        return Reason.BAD_ROW
    if spec.invalid_utf8 == "skip" and (forbidden or any(INVALID_BYTES in text for text in read)):
        return Reason.INVALID_UTF8
    return None


def _cleaned(text: str) -> str:
    return text.replace(INVALID_BYTES, "\ufffd").replace(FORBIDDEN, "\ufffd")


def _parsed(path: str, target: Units, spec: RowRules, digest: Digest | None) -> Iterator[list[Unit]]:
    """The units completed by each piece of the file."""
    parser = DefusedXMLParser(target=target, encoding="utf-8")
    line, fed, window = 1, 0, b""
    try:
        for piece in xml_as_utf8(read_pieces(path, digest), spec.invalid_utf8 != "strict", _marks(spec)):
            window = window[-_KEPT:] + piece
            fed += len(piece)
            parser.feed(piece)
            line += piece.count(b"\n")
            yield target.take()
        parser.close()
        yield target.take()
    except BrokenStreamError as error:
        raise InputError(f"{path}, after line {line - 1}: {error.problem}") from None
    except ParseError as error:
        yield target.take()
        rest = window[max(parser.parser.ErrorByteIndex - fed + len(window), 0) :]
        raise InputError(f"{path}, line {error.position[0]}: {_fault(error.code, rest)}") from None
    except DefusedXmlException as error:
        kind = type(error).__name__
        raise InputError(
            f"{path}, about line {line}: XML entities are refused ({kind}): write the text itself in their place"
        ) from None
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: the XML cannot be decoded ({error}): convert it to UTF-8") from None


def _fault(code: int, rest: bytes) -> str:
    """What is wrong and the mend, by expat's code and the bytes from the fault on."""
    skip = "take it out, or set on_bad_row: skip, or invalid_utf8: replace or skip"
    problem, mend = ErrorString(code), "correct the file"
    if code == codes[XML_ERROR_BAD_CHAR_REF]:
        problem, mend = "a reference to a character that XML does not allow", skip
    elif code == codes[XML_ERROR_INVALID_TOKEN]:
        if rest.startswith(_MARKS):  # in a text it would have been replaced or skipped
            problem = "a character that XML does not allow, outside of all text"
        elif rest and rest[0] < 0x20:
            problem, mend = f"the control character U+{rest[0]:04X}, which XML does not allow", skip
        elif rest and rest[0] >= 0x80:
            problem, mend = "invalid UTF-8", "convert the file to UTF-8, or set invalid_utf8: replace or skip"
    return f"not well-formed XML ({problem}): {mend}"
