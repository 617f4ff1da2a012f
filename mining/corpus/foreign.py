"""What the first bytes of a file say it is when it is not text in UTF-8: UTF-16, UTF-32, or
packed."""

from __future__ import annotations

import codecs
import unicodedata

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
