"""Names and texts of files in messages: what cannot be seen, or would command a terminal, stands
there as an escape.

A character is written as Python would (``\\x1b``, ``\\ufeff``), and a byte of a file name that is
no UTF-8, which Python keeps as a lone surrogate, as that byte (``\\xe9``). Backslashes stay as they
are, so showing twice changes nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: What terminals act upon, or cannot be given: control characters, line and paragraph separators,
#: embeddings, overrides and isolates of the writing direction, and surrogates.
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
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


def json_text(data: Any) -> str:
    """JSON of plain data with sorted keys, readable; a lone surrogate, as in names of files, stands
    there as `shown` writes it."""
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False)
    return _SURROGATES.sub(lambda found: "\\" + _escape(found[0]), text)


def safe_lines(text: str) -> str:
    r"""The same for a text of several lines: ``\n`` stays."""
    return "\n".join(map(safe, text.split("\n")))
