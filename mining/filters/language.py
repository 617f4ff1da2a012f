"""Pairs in other languages than they should be in, by py3langid, whose model comes with the
package."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

import numpy as np

from mining.config.corpus import BitextSpec
from mining.errors import UsageError
from mining.filters import FILTERS, Bounds, Filter, PairBatch

JUDGED_CHARS = 20
"""Shorter texts are not judged: their language is guessed wrongly as often as not."""


@FILTERS.register("language")
class Language(Filter):
    """Drops pairs of which a side is recognised as another language than it should be in."""

    cost = 20
    packages = ("py3langid",)
    language_id: bool = False
    """Drop a pair of which a side is recognised as another language than ``languages`` of its
    bitext says; slow."""

    def bounds(self) -> Bounds | None:
        """Only 0, no side in another language."""
        return (0, 0) if self.language_id else None

    def check(self, spec: BitextSpec) -> None:
        """The languages have to be named."""
        if spec.languages is None:
            raise ValueError("the filter language_id needs languages: [CODE, CODE] of the bitext")

    def begin(self, spec: BitextSpec) -> None:
        """py3langid has to be installed, and to know the languages."""
        _, known = _identifier()
        for code in _codes(spec):
            if code not in known:
                raise UsageError(f"language_id: '{code}' is not among the languages it knows: {', '.join(known)}")

    def score(self, batch: PairBatch) -> np.ndarray:
        """1 where a side is recognised as another language, else 0."""
        classify, _ = _identifier()
        codes = _codes(batch.spec)

        def foreign(*pair: str) -> bool:
            sides = zip(pair, codes, strict=True)
            return any(len(text) >= JUDGED_CHARS and classify(text)[0] != code for text, code in sides)

        return np.fromiter(map(foreign, *batch.texts), np.float64, len(batch))


def _codes(spec: BitextSpec) -> list[str]:
    """The codes of the languages without their regions."""
    return [code.replace("_", "-").split("-")[0].lower() for code in spec.languages or ()]


@lru_cache(maxsize=1)
def _identifier() -> tuple[Callable[[str], tuple[str, float]], list[str]]:
    """The function from a text to its language, and the languages it knows."""
    try:
        py3langid = import_module("py3langid")
    except ImportError:
        raise UsageError(
            "language_id needs the package py3langid: pip install py3langid, or leave out language_id"
        ) from None
    return py3langid.classify, sorted(code for code, _ in py3langid.rank(""))
