"""The bytes of an XML file as UTF-8, with what XML does not allow marked where that is asked
for."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain

from mining.corpus.charsets import text_encoding

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


_MARKING = "mining.corpus.xml_text.mark"
codecs.register_error(_MARKING, _mark)
