"""Domains of a bitext: their numbers, the rules for them, and what was dropped of each."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from mining.config.data import DomainRule
from mining.corpus import BitextSpec, Row
from mining.corpus.spec import without_compression
from mining.errors import UsageError

NO_DOMAIN = "none"
MAX_DOMAINS = 1 << 16

_NO_RULE = DomainRule(match="*")


class DomainTable:
    """The domains met so far, numbered in the order of their first row.

    A domain is what the column ``domain`` says (NO_DOMAIN where that is empty), without such a
    column the file without its extension; where the bitext has languages, they come before it:
    ``en-de/news``.
    """

    def __init__(self, rules: Sequence[DomainRule]) -> None:
        self._rules = rules
        self._bare: list[str] = []
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.languages: list[tuple[str, str] | None] = []
        self.rules: list[DomainRule] = []
        self.dropped: list[Counter[str]] = []

    def number(self, name: str, languages: tuple[str, str] | None) -> int:
        """The number of the domain `name`; raises UsageError when there are too many."""
        name = name or NO_DOMAIN
        full = f"{'-'.join(languages)}/{name}" if languages else name
        known = self._numbers.get(full)
        if known is not None:
            return known
        if len(self.names) == MAX_DOMAINS:
            raise UsageError(
                f"more than {MAX_DOMAINS:,} domains (the last is '{full[:80]}'): domain: names a column with something "
                "else; name the column that holds the domain"
            )
        number = self._numbers[full] = len(self.names)
        self.names.append(full)
        self._bare.append(name)
        self.languages.append(languages)
        self.rules.append(next((rule for rule in self._rules if _fits(rule, name, full)), _NO_RULE))
        self.dropped.append(Counter())
        return number

    def warnings(self) -> list[str]:
        """A line for each rule that fits no domain, with the nearest names."""
        lines = []
        for rule in self._rules:
            if any(_fits(rule, *names) for names in zip(self._bare, self.names, strict=True)):
                continue
            known = list(dict.fromkeys([*self._bare, *self.names]))
            near = difflib.get_close_matches(rule.match, known, n=3, cutoff=0.3) or known[:3]
            lines.append(f"domains: no domain fits the pattern '{rule.match}'; the nearest are {', '.join(near)}")
        return lines


class Labels:
    """From the rows of one bitext to numbers of domains."""

    def __init__(self, spec: BitextSpec, table: DomainTable) -> None:
        self._table = table
        self._languages = spec.languages
        self._by_file = spec.domain is None
        self._numbers: dict[str, int] = {}

    def number(self, row: Row) -> int:
        """The number of the row's domain."""
        label = row.file if self._by_file else (*row.extra, "")[0]
        number = self._numbers.get(label)
        if number is None:
            name = file_domain(label) if self._by_file else label
            number = self._numbers[label] = self._table.number(name, self._languages)
        return number


def file_domain(name: str) -> str:
    """The display name of a file without the extensions of its format and compression."""
    return os.path.splitext(without_compression(name))[0]


def _fits(rule: DomainRule, name: str, full: str) -> bool:
    return fnmatchcase(name, rule.match) or fnmatchcase(full, rule.match)
