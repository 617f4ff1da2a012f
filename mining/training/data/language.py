"""Language identification of the two sides, by py3langid, whose model comes with the package."""

from __future__ import annotations

from collections.abc import Callable

from mining.errors import UsageError

JUDGED_CHARS = 20
"""Shorter texts are not judged: their language is guessed wrongly as often as not."""


class LanguageJudge:
    """Tells whether both sides of a pair look like the languages they should be in."""

    def __init__(self, languages: tuple[str, str]) -> None:
        """Raises UsageError when py3langid is missing or does not know a language."""
        self._classify, known = _identifier()
        self._codes = tuple(code.replace("_", "-").split("-")[0].lower() for code in languages)
        for code in self._codes:
            if code not in known:
                raise UsageError(f"language_id: '{code}' is not among the languages it knows: {', '.join(known)}")

    def accepts(self, source: str, target: str) -> bool:
        """Whether neither side is recognised as another language."""
        return all(
            len(text) < JUDGED_CHARS or self._classify(text)[0] == code
            for text, code in zip((source, target), self._codes, strict=True)
        )


def _identifier() -> tuple[Callable[[str], tuple[str, float]], list[str]]:
    """The function from a text to its language, and the languages it knows."""
    try:
        import py3langid  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(
            "language_id needs the package py3langid: pip install py3langid, or leave out language_id"
        ) from None
    return py3langid.classify, sorted(code for code, _ in py3langid.rank(""))
