"""Which of the names that files declare for their encoding can be believed."""

from __future__ import annotations

import codecs

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
