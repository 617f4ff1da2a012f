"""What the filters measure on texts: length in tokens, equality of sides, overlap of trigrams, the
key of a text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from mining.corpus import dedup_key

_UNSPACED_RANGES = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]")
_TOKEN = re.compile(rf"[{_UNSPACED_RANGES}]|[^\s{_UNSPACED_RANGES}]+")
_NO_CONTENT = re.compile(r"[\W_]+")
_FIRST_CONTENT = re.compile(r"[^\W_]")


def token_length(text: str) -> int:
    """Number of tokens: words between white space.

    A word with characters of a script written without spaces (Han, kana, Thai, Lao, Khmer, Burmese)
    counts half a token for each of them, rounded up.
    """
    words = text.split()
    if text.isascii() or not _UNSPACED.search(text):
        return len(words)
    return sum(max(1, (len(_UNSPACED.findall(word)) + 1) // 2) for word in words)


def length_ratio(first: int, second: int) -> float:
    """The longer length over the shorter; infinite where one of them is 0."""
    shorter, longer = sorted((first, second))
    return longer / shorter if shorter else float("inf")


def folded(text: str) -> str:
    """The letters and digits of a text after NFKC, without their case."""
    return _NO_CONTENT.sub("", unicodedata.normalize("NFKC", text).casefold())


def equal_sides(source: str, target: str) -> bool:
    """Whether two texts have the same ``folded`` form (two texts without letters and digits are
    equal)."""
    first, second = _first_content(source), _first_content(target)
    if first and second and first != second:
        return False
    return folded(source) == folded(target)


def _first_content(text: str) -> str:
    """The first character of ``folded``, or an empty string where that takes more than a look at
    the beginning.

    Most pairs already differ in it. Normalising may turn symbols before it into letters, or join it
    with an accent after it: then nothing is said.
    """
    found = _FIRST_CONTENT.search(text)
    if found is None or not text[: found.start()].isascii():
        return ""
    head = text[found.start() : found.start() + 2]
    if not head.isascii() and (unicodedata.combining(head[-1]) or not unicodedata.is_normalized("NFKC", head)):
        return ""
    first = head[0].casefold()[0]
    return first if first.isalnum() else ""


def trigram_overlap(source: str, target: str) -> float:
    """Word trigrams in common, over the trigrams of the side that has fewer; 0 where a side has
    none.

    Words are those between white space, without their case; each character of a script written
    without spaces is a word. Wieting and Gimpel 2018, section 6.1 (thesis, section 4).
    """
    first, second = _trigrams(source), _trigrams(target)
    fewer = min(first.total(), second.total())
    return (first & second).total() / fewer if fewer else 0.0


def _trigrams(text: str) -> Counter[tuple[str, str, str]]:
    tokens = _TOKEN.findall(text.casefold())
    return Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))


def text_key(text: str) -> int:
    """A 64-bit number, equal for texts that are equal but for case, NFKC and white space
    (``dedup_key``)."""
    return int.from_bytes(dedup_key(text.casefold())[:8], "little")
