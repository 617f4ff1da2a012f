"""Names and texts of files in messages: what cannot be seen, or would command a terminal, stands
there as an escape.

A character is written as Python would (``\\x1b``, ``\\ufeff``), and a byte of a file name that is
no UTF-8, which Python keeps as a lone surrogate, as that byte (``\\xe9``). Backslashes stay as they
are, so showing twice changes nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection

#: What terminals act upon, or cannot be given: control characters, line and paragraph separators,
#: embeddings, overrides and isolates of the writing direction, and surrogates.
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 80
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return _SHORT.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(text: str) -> str:
    """For messages about a text or a name: all that is not visible as an escape, except plain
    spaces."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def safe(text: str) -> str:
    """For texts that are shown to be read: only what a terminal would act upon as an escape, line
    breaks too."""
    return _COMMANDS.sub(lambda found: _escape(found[0]), text)


def visible_surrogates(text: str) -> str:
    """JSON text with its lone surrogates, as in names of files, as `shown` writes them."""
    return _SURROGATES.sub(lambda found: "\\" + _escape(found[0]), text)


def safe_lines(text: str) -> str:
    r"""The same for a text of several lines: ``\n`` stays."""
    return "\n".join(map(safe, text.split("\n")))


def short(name: str) -> str:
    """A name of a file's own for a message, at most some 80 characters of it."""
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."


def quoted(value: object) -> str:
    """A value of a file for a message, as Python writes it, as short as a name."""
    if isinstance(value, (str, bytes)):
        return short(repr(value[:_LONGEST_NAME]))
    if isinstance(value, (list, tuple, dict, set)) and len(value) > _LONGEST_NAME:
        return f"{type(value).__name__} of {len(value):,}"
    try:
        return short(repr(value))
    except (ValueError, RecursionError):  # a whole number of thousands of digits, a list in itself
        return type(value).__name__


def listed(names: Collection[object]) -> str:
    """The first ten names."""
    first = [short(str(name)) for name in itertools.islice(names, 10)]
    return ", ".join(first) + (", ..." if len(names) > len(first) else "") if first else "none"
