"""Pairs of a text and itself."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from mining.filters import FILTERS, Bounds, Filter, PairBatch

_NO_CONTENT = re.compile(r"[\W_]+")
_FIRST_CONTENT = re.compile(r"[^\W_]")


@FILTERS.register("equal_sides")
class EqualSides(Filter):
    """Drops pairs whose sides differ in nothing but case, punctuation and white space."""

    cost = 4
    equal_sides: bool = True
    """Drop a pair whose sides differ in nothing but case, punctuation and white space."""

    def bounds(self) -> Bounds | None:
        """Only 0, different sides."""
        return (0, 0) if self.equal_sides else None

    def score(self, batch: PairBatch) -> np.ndarray:
        """1 for equal sides, else 0."""
        return np.fromiter(map(equal_sides, *batch.texts), np.float64, len(batch))


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
