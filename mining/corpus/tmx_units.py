"""Collects the translation units of a TMX file from the events of an XML parser."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Inline elements whose content is mark-up of the original document, not text (TMX 1.4b, section
4)."""

_PAIRED = frozenset({"bpt", "ept"})
_MARKED_TEXT = frozenset({"hi", "sub"})
_BREAK = re.compile(r"</?(?:br|p|div|h[1-6]|li|ul|ol|dt|dd|table|tr|td|th|para|lb)\b|\\(?:par|line|tab)\b|\n", re.I)
"""Native code of HTML, DocBook and RTF at which a word ends."""

_ENOUGH_CODE = 200
"""Characters of native code that are looked at."""

_CLOSING = frozenset(".,;:!?…)]}»”")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff]")
"""Scripts that set no space between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese."""

_MOST_LANGUAGES = 100
"""Languages that are remembered."""


class Unit(NamedTuple):
    """A translation unit: its tuid (empty if it has none) and one text per language asked for."""

    tuid: str
    texts: tuple[str, ...]


class Units:
    """Receives the parser's events; `take` hands over the units that are complete.

    Of a segment no more than `max_chars` + 1 characters are kept, and only segments of languages
    asked for, so memory does not depend on the file. `known` has the languages met, as they are
    written; `met` says for each language asked for whether it was.
    """

    def __init__(self, fields: tuple[str, ...], max_chars: int) -> None:
        self.wanted = [_nearest(_language(field)) for field in fields]
        self.max_chars = max_chars
        self.known: dict[str, tuple[str, bool]] = {}
        self.met = [False] * len(fields)
        self.done: list[Unit] = []
        self.tuid = ""
        self.language, self.wants = "", False
        self.variants: dict[str, str] = {}
        self.segment: list[str] | None = None
        self.length = 0
        self.code_depth = 0
        self.code = ""
        self.last_code = ""
        self.gap = False
        self.empty = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if self.segment is not None:
            if self.code_depth:
                self.code_depth += 1
            elif tag in _NATIVE_CODE:
                self.code_depth, self.code = 1, ""
                self._take_out(tag)
            else:
                self.empty = tag not in _MARKED_TEXT
        elif tag == "tu":
            self.tuid = attributes.get("tuid", "")
            self.variants = {}
        elif tag == "tuv":
            declared = attributes.get(_XML_LANG, attributes.get("lang", ""))
            self.language, self.wants = self.known.get(declared) or self._meet(declared)
        elif tag == "seg" and self.wants:
            self.segment, self.length, self.code_depth, self.last_code = [], 0, 0, ""

    def data(self, text: str) -> None:
        if self.segment is None or self.code_depth:
            if self.code_depth and len(self.code) < _ENOUGH_CODE:
                self.code += text[:_ENOUGH_CODE]
            return
        if self.gap and self.segment and _glues(self.segment[-1][-1], text[0]):
            text = f" {text}"
        self.gap, self.empty, self.last_code = False, False, ""
        room = self.max_chars + 1 - self.length
        if room > 0:
            self.segment.append(text[:room])
            self.length += min(len(text), room)

    def end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        if self.segment is not None:
            if self.code_depth:
                self.code_depth -= 1
                self.gap |= not self.code_depth and bool(_BREAK.search(self.code))
            elif tag == "seg":
                self._keep("".join(self.segment))
                self.segment = None
            else:
                self.gap |= self.empty
                self.empty = False
        elif tag == "tu":
            self.done.append(Unit(self.tuid, tuple(self._text(side) for side in range(len(self.wanted)))))

    def close(self) -> None:
        """The parser asks for a result at the end; there is none but what was handed on."""

    def take(self) -> list[Unit]:
        done, self.done = self.done, []
        return done

    def _keep(self, text: str) -> None:
        """Of several texts in one language the first that says something."""
        known = self.variants.get(self.language)
        if len(self.variants) < _MOST_LANGUAGES if known is None else not known.strip():
            self.variants[self.language] = text

    def _take_out(self, tag: str) -> None:
        """A placeholder or break leaves a gap. Paired codes leave none, since they format parts of
        words too (``<bpt/>bold<ept/>ed``); but where one pair ends and another begins, words meet
        as in neighbouring cells, and their code may itself be a break, as an element of another
        format may that has no content (``<br/>``)."""
        self.gap |= tag not in _PAIRED or (tag == "bpt" and self.last_code == "ept")
        self.last_code = tag

    def _meet(self, declared: str) -> tuple[str, bool]:
        """The language of a code, and whether a side may take it."""
        language = _language(declared)
        met = language, any(language in codes or language.startswith(f"{codes[0]}-") for codes in self.wanted)
        if len(self.known) < _MOST_LANGUAGES:
            self.known[declared] = met
        return met

    def _text(self, side: int) -> str:
        """The first text there is of the language itself, of one of its regions, or of a wider
        language."""
        exact, *wider = self.wanted[side]
        text = self.variants.get(exact)
        if text and not text.isspace():
            self.met[side] = True
            return text
        regions = [language for language in self.variants if language.startswith(f"{exact}-")]
        found = [self.variants[code] for code in (exact, *regions, *wider) if code in self.variants]
        self.met[side] |= bool(found)
        return next((text for text in found if text.strip()), "")


def _glues(left: str, right: str) -> bool:
    """Whether two characters that stood on either side of a placeholder would be taken for one word
    without a space.

    Punctuation that ends something stays with what is before it, and is told from a following word;
    nothing else is.
    """
    if _UNSPACED.match(left) and _UNSPACED.match(right):
        return False
    if left in _CLOSING:
        return right.isalpha()
    return right.isalnum() and (left.isalnum() or unicodedata.category(left).startswith("M"))


def _language(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def _nearest(code: str) -> tuple[str, ...]:
    """The code and those that it is a part of: zh-hant-tw, zh-hant, zh."""
    parts = code.split("-")
    return tuple("-".join(parts[:length]) for length in range(len(parts), 0, -1))
