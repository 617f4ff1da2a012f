"""The parts of the TMX reader: the bytes of an XML file as UTF-8, with what XML does not allow
marked where that is asked for, and the collector of translation units from a parser's events."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from mining.corpus.lines import text_encoding

INVALID_BYTES = "\ufdd0"
FORBIDDEN = "\ufdd1"
"""Stand for invalid bytes and for a forbidden character on the way through the parser.

They are noncharacters, so never part of a text.
"""

_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_UTF16_TAGS = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_DECLARED = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._:-]+)", re.ASCII)
_ENOUGH = 1024
"""Bytes among which the declaration is looked for."""

_RAW = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff"
_CONTROLS = bytes(code for code in range(0x20) if code not in (9, 10, 13))
_TOKEN = re.compile(rf"<!\[CDATA\[|\]\]>|<!--|-->|<\?|\?>|&\#(?:x([0-9a-fA-F]{{1,20}})|([0-9]{{1,20}}));|[{_RAW}]")
_PART_OF_TOKEN = re.compile(r"(?:<[!\[CDAT?-]{0,8}|&(?:#(?:x[0-9a-fA-F]{0,20}|[0-9]{0,20}))?|\]{1,2}|-{1,2}|\?)\Z")
_ENDS = {"<![CDATA[": "]]>", "<!--": "-->", "<?": "?>"}


def xml_as_utf8(pieces: Iterator[bytes], mark_invalid: bool, mark_forbidden: bool) -> Iterator[bytes]:
    """The pieces of an XML file of any encoding in UTF-8, whatever the file declares, without a
    byte order mark.

    `mark_invalid` puts INVALID_BYTES in place of what is not of the encoding, `mark_forbidden` puts
    FORBIDDEN in place of characters that XML does not allow, written as such or as a reference
    (``&#1;``). Otherwise they are left for the parser to refuse. Raises ValueError if the encoding
    is unknown or not that of the file.
    """
    first = b""
    while len(first) < _ENOUGH and (piece := next(pieces, b"")):
        first += piece
    encoding, first = _encoding(first)
    pieces = chain([first], pieces)
    if encoding == "utf-8" and not mark_invalid and not mark_forbidden:
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors=_MARKING if mark_invalid else "surrogateescape")
    marker = _Marker()
    for piece, final in chain(((piece, False) for piece in pieces), [(b"", True)]):
        text = decoder.decode(piece, final)
        yield marker.mark(text, final) if mark_forbidden else _encoded(text)


def _encoding(first: bytes) -> tuple[str, bytes]:
    """Python's name of the encoding, and the first piece without its byte order mark."""
    for bom, encoding in _BOMS.items():
        if first.startswith(bom):
            return encoding, first[len(bom) :]
    if first[:2] in _UTF16_TAGS:
        return _UTF16_TAGS[first[:2]], first
    found = _DECLARED.match(first)
    if not found:
        return "utf-8", first
    declared = found[1].decode("ascii")
    known = text_encoding(declared)
    if known is None:
        raise ValueError(f"it is not in the encoding '{declared}' that it declares")
    return "utf-8" if known == "ascii" else known, first


class _Marker:
    """Marks forbidden characters in a text that comes in pieces.

    References are none inside CDATA, comments and processing instructions, so these are followed.
    """

    def __init__(self) -> None:
        self.rest = ""
        self.until = ""  # the end of the CDATA section, comment or processing instruction in hand

    def mark(self, text: str, final: bool) -> bytes:
        text = self.rest + text
        part = None if final else _PART_OF_TOKEN.search(text, max(len(text) - 25, 0))
        self.rest = text[part.start() :] if part else ""
        text = text[: part.start()] if part else text
        data = _encoded(text)
        if self.until or b"&#" in data or b"<!" in data or b"<?" in data or _holds_forbidden(data):
            return _encoded(_TOKEN.sub(self._token, text))
        return data

    def _token(self, found: re.Match[str]) -> str:
        token = found[0]
        hexadecimal, decimal = found.groups()
        if hexadecimal or decimal:
            code = int(hexadecimal, 16) if hexadecimal else int(decimal)
            return token if self.until or _is_allowed(code) else FORBIDDEN
        if token == self.until:
            self.until = ""
        elif token in _ENDS and not self.until:
            self.until = _ENDS[token]
        return FORBIDDEN if len(token) == 1 else token


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _holds_forbidden(data: bytes) -> bool:
    """Whether there is a forbidden character written as such. Many times faster than the
    expression."""
    return len(data.translate(None, _CONTROLS)) < len(data) or b"\xef\xbf\xbe" in data or b"\xef\xbf\xbf" in data


def _is_allowed(code: int) -> bool:
    """Whether XML 1.0 has the character (section 2.2)."""
    return code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return INVALID_BYTES, error.end


_MARKING = "mining.corpus.formats.tmx.mark"
codecs.register_error(_MARKING, _mark)


_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Inline elements whose content is mark-up of the original document, not text (TMX 1.4b, section
4)."""

_PAIRED = frozenset({"bpt", "ept"})
_MARKED_TEXT = frozenset({"hi", "sub"})
_BREAK = re.compile(r"</?(?:br|p|div|h[1-6]|li|ul|ol|dt|dd|table|tr|td|th|para|lb)\b|\\(?:par|line|tab)\b|\n", re.I)
"""Native code of HTML, DocBook and RTF at which a word ends."""

_ENOUGH_CODE = 200
"""Characters of native code that are looked at."""

_CLOSING = frozenset(".,;:!?…)]}»”")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff]")
"""Scripts that set no space between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese."""

_MOST_LANGUAGES = 100
"""Languages that are remembered."""


class Unit(NamedTuple):
    """A translation unit: its tuid (empty if it has none) and one text per language asked for."""

    tuid: str
    texts: tuple[str, ...]


class Units:
    """Receives the parser's events; `take` hands over the units that are complete.

    Of a segment no more than `max_chars` + 1 characters are kept, and only segments of languages
    asked for, so memory does not depend on the file. `known` has the languages met, as they are
    written; `met` says for each language asked for whether it was.
    """

    def __init__(self, fields: tuple[str, ...], max_chars: int) -> None:
        self.wanted = [_nearest(_language(field)) for field in fields]
        self.max_chars = max_chars
        self.known: dict[str, tuple[str, bool]] = {}
        self.met = [False] * len(fields)
        self.done: list[Unit] = []
        self.tuid = ""
        self.language, self.wants = "", False
        self.variants: dict[str, str] = {}
        self.segment: list[str] | None = None
        self.length = 0
        self.code_depth = 0
        self.code = ""
        self.last_code = ""
        self.gap = False
        self.empty = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if self.segment is not None:
            if self.code_depth:
                self.code_depth += 1
            elif tag in _NATIVE_CODE:
                self.code_depth, self.code = 1, ""
                self._take_out(tag)
            else:
                self.empty = tag not in _MARKED_TEXT
        elif tag == "tu":
            self.tuid = attributes.get("tuid", "")
            self.variants = {}
        elif tag == "tuv":
            declared = attributes.get(_XML_LANG, attributes.get("lang", ""))
            self.language, self.wants = self.known.get(declared) or self._meet(declared)
        elif tag == "seg" and self.wants:
            self.segment, self.length, self.code_depth, self.last_code = [], 0, 0, ""

    def data(self, text: str) -> None:
        if self.segment is None or self.code_depth:
            if self.code_depth and len(self.code) < _ENOUGH_CODE:
                self.code += text[:_ENOUGH_CODE]
            return
        if self.gap and self.segment and _glues(self.segment[-1][-1], text[0]):
            text = f" {text}"
        self.gap, self.empty, self.last_code = False, False, ""
        room = self.max_chars + 1 - self.length
        if room > 0:
            self.segment.append(text[:room])
            self.length += min(len(text), room)

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        if self.segment is not None:
            if self.code_depth:
                self.code_depth -= 1
                self.gap |= not self.code_depth and bool(_BREAK.search(self.code))
            elif tag == "seg":
                self._keep("".join(self.segment))
                self.segment = None
            else:
                self.gap |= self.empty
                self.empty = False
        elif tag == "tu":
            self.done.append(Unit(self.tuid, tuple(self._text(side) for side in range(len(self.wanted)))))

    def close(self) -> None:
        """The parser asks for a result at the end; there is none but what was handed on."""

    def take(self) -> list[Unit]:
        done, self.done = self.done, []
        return done

    def _keep(self, text: str) -> None:
        """Of several texts in one language the first that says something."""
        known = self.variants.get(self.language)
        if len(self.variants) < _MOST_LANGUAGES if known is None else not known.strip():
            self.variants[self.language] = text

    def _take_out(self, tag: str) -> None:
        """A placeholder or break leaves a gap. Paired codes leave none, since they format parts of
        words too (``<bpt/>bold<ept/>ed``); but where one pair ends and another begins, words meet
        as in neighbouring cells, and their code may itself be a break, as an element of another
        format may that has no content (``<br/>``)."""
        self.gap |= tag not in _PAIRED or (tag == "bpt" and self.last_code == "ept")
        self.last_code = tag

    def _meet(self, declared: str) -> tuple[str, bool]:
        """The language of a code, and whether a side may take it."""
        language = _language(declared)
        met = language, any(language in codes or language.startswith(f"{codes[0]}-") for codes in self.wanted)
        if len(self.known) < _MOST_LANGUAGES:
            self.known[declared] = met
        return met

    def _text(self, side: int) -> str:
        """The first text there is of the language itself, of one of its regions, or of a wider
        language."""
        exact, *wider = self.wanted[side]
        text = self.variants.get(exact)
        if text and not text.isspace():
            self.met[side] = True
            return text
        regions = [language for language in self.variants if language.startswith(f"{exact}-")]
        found = [self.variants[code] for code in (exact, *regions, *wider) if code in self.variants]
        self.met[side] |= bool(found)
        return next((text for text in found if text.strip()), "")


def _glues(left: str, right: str) -> bool:
    """Whether two characters that stood on either side of a placeholder would be taken for one word
    without a space.

    Punctuation that ends something stays with what is before it, and is told from a following word;
    nothing else is.
    """
    if _UNSPACED.match(left) and _UNSPACED.match(right):
        return False
    if left in _CLOSING:
        return right.isalpha()
    return right.isalnum() and (left.isalnum() or unicodedata.category(left).startswith("M"))


def _language(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def _nearest(code: str) -> tuple[str, ...]:
    """The code and those that it is a part of: zh-hant-tw, zh-hant, zh."""
    parts = code.split("-")
    return tuple("-".join(parts[:length]) for length in range(len(parts), 0, -1))
