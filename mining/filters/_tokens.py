"""How filters count: tokens of a text, in any script."""

from __future__ import annotations

import re

_UNSPACED_RANGES = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]")
_TOKEN = re.compile(rf"[{_UNSPACED_RANGES}]|[^\s{_UNSPACED_RANGES}]+")


def token_length(text: str) -> int:
    """Number of tokens: words between white space.

    A word with characters of a script written without spaces (Han, kana, Thai, Lao, Khmer, Burmese)
    counts half a token for each of them, rounded up.
    """
    words = text.split()
    if text.isascii() or not _UNSPACED.search(text):
        return len(words)
    return sum(max(1, (len(_UNSPACED.findall(word)) + 1) // 2) for word in words)


def words(text: str) -> list[str]:
    """The words between white space without their case; each character of a script written without
    spaces is a word."""
    return _TOKEN.findall(text.casefold())
