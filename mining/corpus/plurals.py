"""Which plural form of a translation belongs to the singular and which to the plural of its
source."""

from __future__ import annotations

import gettext
import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

_HEADER = re.compile(r"^Plural-Forms:\s*nplurals\s*=\s*([0-9]{1,3})\s*;\s*plural\s*=([^;\n]*)", re.I | re.M)
_NUMBERS = range(202)
"""Numbers for which a rule is tried: no language distinguishes more than their last two digits, but
for millions."""


class PluralForms(NamedTuple):
    """How many forms a translation has, and the places (from 0) of those for the singular and the
    plural."""

    total: int
    singular: int
    plural: int


def plural_forms(header: str) -> PluralForms | None:
    """What the line ``Plural-Forms`` of a catalogue's header says; None if it is absent or cannot
    be a rule.

    The singular of the source has the form for 1. Its plural has the form for most numbers from 2
    to 201: neither that for 0 (Latvian's last) nor those for 2 or a few (Arabic, Welsh) nor that
    for fractions (the fourth of Slavic languages), which no whole number has.
    """
    found = _HEADER.search(header)
    return _by_rule(int(found[1]), found[2].strip()) if found else None


@lru_cache(maxsize=256)
def _by_rule(count: int, expression: str) -> PluralForms | None:
    try:
        # The parser of the standard library: it takes C's arithmetic on n and nothing else, up to
        # 1,000 characters.
        rule = gettext.c2py(expression)
        forms = [rule(number) for number in _NUMBERS]
    except (ValueError, ArithmeticError, SyntaxError, RecursionError, MemoryError):
        return None
    if not all(0 <= form < count for form in forms):
        return None
    return PluralForms(count, forms[1], Counter(forms[2:]).most_common(1)[0][0])
