r"""Lines of UTF-8 files, under the project's rules for what a line is.

Only ``\n`` ends a line and one ``\r`` before it is stripped; U+2028, U+0085, VT, FF and a lone
``\r`` are text. A byte order mark at the start of the file is removed, by most readers also those
at the start of a line or a cell (`without_marks`). The last line needs no ``\n``; a file that ends
in ``\n`` has no extra line; an empty file has none."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from mining.config.corpus import Policy
from mining.corpus.compression import BrokenStreamError, Digest, read_pieces
from mining.corpus.rows import LONGEST_TEXT, invalid_utf8_error
from mining.errors import InputError
from mining.schemas import Reason

HEAD_BYTES = 4096
MIN_LINE_LIMIT = 4 << 20


@dataclass(frozen=True)
class FaultyLine:
    """A line without a text: ``invalid_utf8`` (under the policy skip) or ``too_long`` (beyond
    ``line_limit``).

    ``head`` is its beginning (at most 4096 bytes of it, or all of a line with invalid UTF-8), with
    U+FFFD for what is not UTF-8; ``tabs`` counts the tabs of the whole line.
    """

    reason: Reason
    head: str
    tabs: int


class ReplacedLine(str):
    """A line some bytes of which were no UTF-8 and are U+FFFD now (the policy ``replace``)."""

    __slots__ = ()


Line = str | FaultyLine


def line_limit(max_chars: int) -> int:
    """Bytes beyond which a line is not held but only counted: far more than `max_chars` characters
    can need, or than the longest text has."""
    return min(max(MIN_LINE_LIMIT, 16 * max_chars), 4 * LONGEST_TEXT)


def without_marks(text: str) -> str:
    """A line or cell without the byte order marks at its start: ``cat`` and ``paste`` leave those
    of single files."""
    return text.lstrip("\ufeff")


def split_cells(line: str) -> list[str]:
    """The cells of a line between its tabs, each `without_marks`."""
    cells = line.split("\t")
    return list(map(without_marks, cells)) if "\ufeff" in line else cells


def read_lines(
    path: str, policy: Policy, max_chars: int, digest: Digest | None = None
) -> Iterator[tuple[int, list[Line]]]:
    """Blocks of lines, each as the 1-based number of its first line and the lines.

    Memory is bounded by a block of about 1 MiB and a line of ``line_limit(max_chars)`` bytes.
    Raises InputError, with path and line, for a truncated or corrupt compressed file and, if
    `policy` is ``strict``, for invalid UTF-8; and, whatever the policy, for a file that is UTF-16,
    UTF-32 or compressed without saying so in its name. `digest` is given the file as in
    `read_pieces`.
    """
    for first, block in read_blocks(path, policy, max_chars, whole=False, digest=digest):
        if not isinstance(block, bytes):
            yield first, block


def read_blocks(
    path: str, policy: Policy, max_chars: int, whole: bool = True, digest: Digest | None = None
) -> Iterator[tuple[int, bytes | list[Line]]]:
    r"""The blocks of `read_lines`; those of valid UTF-8 and lines of bearable length as they are,
    if `whole`.

    Such a block is the bytes of its lines, each but the last with its ``\n``; nothing is stripped.
    """
    decoder = _LineDecoder(path, policy, line_limit(max_chars))
    try:
        for block in _blocks(_from_start(path, read_pieces(path, digest)), decoder.limit):
            first = decoder.number
            if whole and isinstance(block, bytes) and len(block) <= decoder.limit and is_utf8(block):
                decoder.number += block.count(b"\n") + 1
                yield first, block
            else:
                yield first, decoder.decode(block)
    except BrokenStreamError as error:
        raise InputError(f"{path}, after line {decoder.number - 1}: {error.problem}") from None


def is_utf8(block: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def split_lines(block: bytes) -> list[Line]:
    """The lines of a whole block of `read_blocks`, as `read_lines` gives them."""
    return [line.removesuffix("\r") for line in block.decode("utf-8").split("\n")]


def numbered_lines(
    path: str, policy: Policy, max_chars: int, digest: Digest | None = None
) -> Iterator[tuple[int, Line]]:
    """The lines of ``read_lines`` one by one, each with its 1-based number."""
    for first, lines in read_lines(path, policy, max_chars, digest):
        yield from enumerate(lines, first)


class _LongLine:
    """A line too long to be held: checked, counted and forgotten piece by piece."""

    def __init__(self) -> None:
        self.head = b""
        self.tabs = 0
        self.valid = True
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def feed(self, piece: bytes, final: bool = False) -> None:
        self.head += piece[: HEAD_BYTES - len(self.head)]
        self.tabs += piece.count(b"\t")
        if self.valid:
            try:
                self._utf8.decode(piece, final)
            except UnicodeDecodeError:
                self.valid = False


def _blocks(pieces: Iterator[bytes], limit: int) -> Iterator[bytes | _LongLine]:
    r"""The file in runs of whole lines, without the ``\n`` of the last; a line beyond `limit` bytes
    comes alone."""
    held: list[bytes] = []
    size = 0
    long: _LongLine | None = None
    for piece in pieces:
        if long is not None:
            end = piece.find(b"\n")
            if end < 0:
                long.feed(piece)
                continue
            long.feed(piece[:end], final=True)
            yield long
            long = None
            piece = piece[end + 1 :]
        cut = piece.rfind(b"\n")
        if cut >= 0:
            held.append(piece[:cut])
            yield b"".join(held)
            held, size = [], 0
            piece = piece[cut + 1 :]
        if piece:
            held.append(piece)
            size += len(piece)
        if size > limit:
            long = _LongLine()
            for part in held:
                long.feed(part)
            held, size = [], 0
    if long is not None:
        long.feed(b"", final=True)
        yield long
    elif held:
        yield b"".join(held)


def _from_start(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces without the byte order mark of the file; raises InputError if they are no text at
    all."""
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= HEAD:
            break
    if (what := foreign(start[:HEAD])) is not None:
        raise InputError(f"{path}: {what}")
    start = start.removeprefix(codecs.BOM_UTF8)
    if start:
        yield start
    yield from pieces


class _LineDecoder:
    """Turns blocks of bytes into lines of text and keeps count of the lines."""

    def __init__(self, path: str, policy: Policy, limit: int) -> None:
        self.path = path
        self.policy = policy
        self.limit = limit
        self.number = 1

    def decode(self, block: bytes | _LongLine) -> list[Line]:
        lines = self._lines(block)
        self.number += len(lines)
        return lines

    def _lines(self, block: bytes | _LongLine) -> list[Line]:
        if isinstance(block, _LongLine):
            return [self._long(block, self.number)]
        if len(block) <= self.limit:
            try:
                text = block.decode("utf-8")
            except UnicodeDecodeError:
                text = None
            if text is not None:
                lines = text.split("\n")
                return [line.removesuffix("\r") for line in lines] if "\r" in text else [*lines]
        # Line by line: one of them is faulty, or so long that its size in bytes must be looked at.
        return [self._line(raw, number) for number, raw in enumerate(block.split(b"\n"), self.number)]

    def _line(self, raw: bytes, number: int) -> Line:
        if len(raw) > self.limit:
            long = _LongLine()
            long.feed(raw, final=True)
            return self._long(long, number)
        try:
            return raw.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            if self.policy == "strict":
                where = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
                raise invalid_utf8_error(self.path, number, where) from None
        line = raw.decode("utf-8", "replace").removesuffix("\r")
        return (
            ReplacedLine(line) if self.policy == "replace" else FaultyLine(Reason.INVALID_UTF8, line, raw.count(b"\t"))
        )

    def _long(self, long: _LongLine, number: int) -> FaultyLine:
        if not long.valid and self.policy == "strict":
            raise invalid_utf8_error(self.path, number)
        reason = Reason.INVALID_UTF8 if not long.valid and self.policy == "skip" else Reason.TOO_LONG
        return FaultyLine(reason, long.head.decode("utf-8", "replace"), long.tabs)


HEAD = 4096
"""Bytes of a file that are looked at."""

#: How files begin, the longer of two beginnings first, and what is wrong with them.
_BEGINNINGS = {
    codecs.BOM_UTF32_LE: "UTF-32LE",
    codecs.BOM_UTF32_BE: "UTF-32BE",
    codecs.BOM_UTF16_LE: "UTF-16LE",
    codecs.BOM_UTF16_BE: "UTF-16BE",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
    b"PK\x03\x04": "zip",
    b"PAR1\x15": "Parquet",
}
_ENDINGS = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz", "Parquet": ".parquet"}
#: Bytes of a unit.
_UNITS = {"UTF-32LE": 4, "UTF-32BE": 4, "UTF-16LE": 2, "UTF-16BE": 2}
_NO_TEXT = ("Cc", "Cn", "Co", "Cs")
#: Every second byte of UTF-16 is a control character in most scripts (for others line feeds have to
#: tell); in the right encoding hardly a character is odd.
_ODD_BYTES, _ODD_CHARS = 0.25, 0.02


def foreign(head: bytes) -> str | None:
    """What a file is that begins with `head` (`HEAD` bytes, or all of it) and how to mend it; None
    for text.

    UTF-16 and UTF-32 are known by their marks or, without one, by what they would be as UTF-8: much
    NUL and other controls. One NUL here and there is no such sign: it is a character like others.
    """
    found = next((name for start, name in _BEGINNINGS.items() if head.startswith(start)), None) or _wide(head)
    if found is None:
        return None
    if found in _UNITS:
        return f"it looks like {found}: convert it to UTF-8, for example with iconv -f {found} -t UTF-8"
    mend = f"give its name the ending {_ENDINGS[found]}" if found in _ENDINGS else "unpack it"
    return f"it looks like {found}, not text: {mend}"


def _wide(head: bytes) -> str | None:
    """The wide encoding in which `head` makes sense, where it makes none as UTF-8."""
    if b"\0" not in head:
        return None
    much = _odd(head.decode("utf-8", "replace")) > len(head) * _ODD_BYTES
    found, most = None, 0
    for name, size in _UNITS.items():
        if len(head) % size and len(head) < HEAD:
            continue
        text = head[: len(head) // size * size].decode(name, "replace")
        plain, feeds = len(text.encode("ascii", "ignore")), text.count("\n")
        # One character may be cut at the end of the head.
        sensible = _odd(text) <= len(text) * _ODD_CHARS + (len(head) == HEAD)
        if sensible and plain > most and (much or 1 < feeds == head.count(b"\n")):
            found, most = name, plain
    return found


def _odd(text: str) -> int:
    """Characters that are no part of a text: controls, unassigned code points, what could not be
    decoded."""
    spaces = "\t\n\v\f\r"
    return sum(c == "\ufffd" or (c not in spaces and unicodedata.category(c) in _NO_TEXT) for c in text)


_ASCII = bytes(set(range(0x20, 0x7F)) - {0x5C}) + b"\t\n\\n \\u0041 +AOQ- .xn--mnchen-3ya."
"""All printable characters, with what stands for other characters in encodings of another
purpose."""


def text_encoding(name: str) -> str | None:
    """Python's name for the encoding `name`; None if there is none, or none in which ASCII stands
    for itself.

    Such are UTF-16 and EBCDIC, in which the declaration could not have been read, and Python's
    ``hex``, ``rot13``, ``idna`` or ``unicode_escape``, which encode something else.
    """
    try:
        return codecs.lookup(name).name if _ASCII.decode(name) == _ASCII.decode("ascii") else None
    except (LookupError, ValueError):
        return None
