"""TMX: a translation unit is a row; read as a stream, with entities and external references refused."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]
from defusedxml.ElementTree import DefusedXMLParser  # type: ignore[import-untyped]

from mining.corpus.compression import BrokenStreamError, Digest, read_pieces
from mining.corpus.rows import INVALID_UTF8, Row, bad_row, dropped, generated_id, make_row
from mining.corpus.spec import InputFile, Layout, Policy, RowRules
from mining.errors import InputError, UsageError

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Inline elements whose content is mark-up of the original document, not text (TMX 1.4b, section 4)."""

_MARK = "\ufdd0"
"""Stands for an invalid byte on the way through the XML parser; a noncharacter, so never part of a text."""

_DECLARED_ENCODING = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)", re.ASCII)


def read_tmx(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one file; the text fields are language codes, compared without case.

    ``de`` also takes ``de-AT`` where a unit has no plain ``de``, and ``de-AT`` takes ``de``. A unit without the
    language is a blank row; a file in which no unit has it raises UsageError naming the languages there are. Faulty
    XML raises InputError with its line.
    """
    target = _Units(layout.fields, spec.max_chars)
    number = 0
    for piece in _parsed(file.path, target, spec.invalid_utf8, digest):
        for tuid, texts in piece:
            number += 1
            yield _row(spec, file, number, tuid, texts)
    for field, met in zip(layout.fields, target.met, strict=True):
        if number and not met:
            languages = ", ".join(sorted(target.languages)) or "none"
            raise UsageError(f"{file.path}: no unit has the language '{field}': name one of {languages}")


def _row(spec: RowRules, file: InputFile, number: int, tuid: str, texts: tuple[str, ...]) -> Row:
    generated = generated_id(file.name, number)
    if spec.invalid_utf8 != "strict":
        cleaned = tuple(text.replace(_MARK, "\ufffd") for text in texts)
        if spec.invalid_utf8 == "skip" and (cleaned != texts or (spec.id and _MARK in tuid)):
            own = tuid if spec.id and tuid.strip() and _MARK not in tuid else generated
            return dropped(own, cleaned, file.name, number, INVALID_UTF8)
        texts, tuid = cleaned, tuid.replace(_MARK, "\ufffd")
    if spec.id is None:
        return make_row(generated, texts, file.name, number, spec.max_chars)
    if not tuid.strip():
        problem = "the translation unit has no tuid: give it one, leave out `id`"
        return bad_row(spec, file.path, file.name, number, texts, problem, "unit")
    return make_row(tuid, texts, file.name, number, spec.max_chars)


class _Units:
    """Receives the parser's events and collects, for each unit, its tuid and one text per language asked for.

    Of a segment no more than `max_chars` + 1 characters are kept, so memory does not depend on the file.
    """

    def __init__(self, fields: tuple[str, ...], max_chars: int) -> None:
        self.wanted = [_language(field) for field in fields]
        self.max_chars = max_chars
        self.languages: set[str] = set()
        self.met = [False] * len(fields)
        self.done: list[tuple[str, tuple[str, ...]]] = []
        self.tuid = ""
        self.language = ""
        self.variants: dict[str, str] = {}
        self.segment: list[str] | None = None
        self.length = 0
        self.code_depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if self.segment is not None:
            self.code_depth += self.code_depth > 0 or tag in _NATIVE_CODE
        elif tag == "tu":
            self.tuid = attributes.get("tuid", "")
            self.variants = {}
        elif tag == "tuv":
            declared = attributes.get(_XML_LANG, attributes.get("lang", ""))
            self.language = _language(declared)
            self.languages.add(declared)
        elif tag == "seg":
            self.segment, self.length, self.code_depth = [], 0, 0

    def data(self, text: str) -> None:
        if self.segment is None or self.code_depth:
            return
        room = self.max_chars + 1 - self.length
        if room > 0:
            self.segment.append(text[:room])
            self.length += min(len(text), room)

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        if tag == "seg" and self.segment is not None:
            self.variants.setdefault(self.language, "".join(self.segment))
            self.segment = None
        elif self.segment is not None:
            self.code_depth -= self.code_depth > 0
        elif tag == "tu":
            self.done.append((self.tuid, tuple(self._text(side) for side in range(len(self.wanted)))))

    def close(self) -> None:
        """The parser asks for a result at the end; there is none but what was handed on."""

    def take(self) -> list[tuple[str, tuple[str, ...]]]:
        done, self.done = self.done, []
        return done

    def _text(self, side: int) -> str:
        wanted = self.wanted[side]
        near = (language for language in self.variants if language.startswith(f"{wanted}-"))
        for language in (wanted, next(near, ""), wanted.partition("-")[0]):
            if language and language in self.variants:
                self.met[side] = True
                return self.variants[language]
        return ""


def _language(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def _parsed(
    path: str, target: _Units, policy: Policy, digest: Digest | None
) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """The units completed by each piece of the file."""
    parser = DefusedXMLParser(target=target)
    line = 1
    try:
        for piece in _readable(read_pieces(path, digest), policy):
            parser.feed(piece)
            line += piece.count(b"\n")
            yield target.take()
        parser.close()
        yield target.take()
    except BrokenStreamError as error:
        raise InputError(f"{path}, after line {line - 1}: {error.problem}") from None
    except ParseError as error:
        yield target.take()
        hint = "; for invalid UTF-8 set invalid_utf8: replace or skip" if "invalid token" in str(error) else ""
        raise InputError(
            f"{path}, line {error.position[0]}: not well-formed XML ({error.msg}){hint}: correct the file"
        ) from None
    except DefusedXmlException as error:
        kind = type(error).__name__
        raise InputError(
            f"{path}, about line {line}: XML entities are refused ({kind}): write the text itself in their place"
        ) from None
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: the XML cannot be decoded ({error}): convert it to UTF-8") from None


def _readable(pieces: Iterator[bytes], policy: Policy) -> Iterator[bytes]:
    """The pieces as they are; under the policies replace and skip, a file in UTF-8 with its invalid bytes marked."""
    first = next(pieces, b"")
    declared = _DECLARED_ENCODING.match(first.removeprefix(codecs.BOM_UTF8))
    is_utf8 = not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if declared and declared.group(1).lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii"):
        is_utf8 = False
    if policy == "strict" or not is_utf8:
        yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder("utf-8")(errors=_MARKING)
    yield decoder.decode(first).encode("utf-8")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.end


_MARKING = "mining.corpus.tmx.mark"
codecs.register_error(_MARKING, _mark)
