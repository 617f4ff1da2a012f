"""First pass over the bitexts: their rows through the filters; what may stay is spooled to disk."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import compress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mining.config.corpus import BitextSpec
from mining.config.data import DataConfig, DomainRule
from mining.corpus import dedup_key, read_corpus
from mining.corpus.compression import without_compression
from mining.errors import InputError, UsageError
from mining.filters import Filter, PairBatch, judge
from mining.io.arrays import GrowingArray
from mining.io.atomic import replacing
from mining.io.json_file import read_json, write_json
from mining.schemas import Reason

BATCH_PAIRS = 8192
NO_DOMAIN = "none"
MAX_DOMAINS = 1 << 16
_NO_RULE = DomainRule(match="*")
_TEXTS, _KEYS, _DOMAIN, _FACTS = "read.arrow", "read.keys.npy", "read.domain.npy", "read.json"
SPOOL_FILES = (_TEXTS, _KEYS, _DOMAIN, _FACTS)
_SCHEMA = pa.schema([("source", pa.large_string()), ("target", pa.large_string())])

Report = Callable[[str, int], None]
"""Is told the stage and the pairs done in it."""


@dataclass(frozen=True)
class ReadDomain:
    """A domain after the first pass: `dropped` counts the rows that did not pass, by reason."""

    name: str
    languages: tuple[str, str] | None
    cap: int | None
    weight: float
    dropped: dict[str, int]


@dataclass(frozen=True)
class Spool:
    """The ``n`` pairs that passed the filters, in the order of the input."""

    texts: Path
    keys: np.ndarray
    """(n, 2) uint64: ``text_key`` of source and target"""
    domain: np.ndarray
    """(n,) uint16: index into `domains`"""
    domains: list[ReadDomain]
    rows: int
    """rows read, dropped ones included"""
    warnings: list[str]

    def __len__(self) -> int:
        return len(self.keys)

    def batches(self, keep: np.ndarray) -> Iterator[tuple[list[str], list[str]]]:
        """Sources and targets of the pairs for which `keep`, (n,) bool, is true, batch by batch."""
        start = 0
        with pa.OSFile(os.fsencode(self.texts)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                wanted = keep[start : start + len(batch)]
                start += len(batch)
                if wanted.any():
                    batch = batch if wanted.all() else batch.filter(pa.array(wanted))
                    yield batch.column(0).to_pylist(), batch.column(1).to_pylist()


def read_pairs(config: DataConfig, folder: Path, report: Report, threads: int) -> Spool:
    """Filter the bitexts into `folder`, or open what an earlier call finished there."""
    if not (folder / _FACTS).is_file():
        table = DomainTable(config.domains)
        rows = _spool(config, folder, table, report, threads)
        domains = [asdict(domain) for domain in table.domains]
        facts = {"rows": rows, "domains": domains, "warnings": table.warnings()}
        write_json(folder / _FACTS, facts, sort_keys=False)
    facts = read_json(folder / _FACTS)
    return Spool(
        folder / _TEXTS,
        np.load(folder / _KEYS).reshape(-1, 2),
        np.load(folder / _DOMAIN),
        [_read_domain(**entry) for entry in facts["domains"]],
        facts["rows"],
        facts["warnings"],
    )


def _read_domain(
    name: str, languages: list[str] | None, cap: int | None, weight: float, dropped: dict[str, int]
) -> ReadDomain:
    pair = (languages[0], languages[1]) if languages else None
    return ReadDomain(name, pair, cap, weight, dropped)


def _spool(config: DataConfig, folder: Path, table: DomainTable, report: Report, threads: int) -> int:
    """Write what passes the filters; returns the number of rows read."""
    filters = config.filters.active()
    for spec in config.bitext:
        for one in filters:
            one.begin(spec)
    rows = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        temporary = stack.enter_context(replacing(folder / _TEXTS))
        file = stack.enter_context(pa.OSFile(os.fsencode(temporary), "wb"))
        texts = stack.enter_context(pa.ipc.new_file(file, _SCHEMA, options=options))
        keys = stack.enter_context(GrowingArray(folder / _KEYS, "uint64"))
        domain = stack.enter_context(GrowingArray(folder / _DOMAIN, "uint16"))
        for spec in config.bitext:
            for batch in _batches(spec):
                kept, numbers = _passing(batch, spec, table, filters, threads)
                rows += len(batch)
                if len(kept):
                    texts.write_table(kept)
                    keys.append(_keys(kept))
                    domain.append(numbers)
                report("reading", rows)
        if not rows:
            raise InputError(f"{name_inputs(config.bitext)}: there is no row in it; name files with pairs of sentences")
    return rows


def _batches(spec: BitextSpec) -> Iterator[pa.Table]:
    """The rows of a bitext in tables of bounded length, each of one file."""
    for table in read_corpus(spec):
        for start in range(0, len(table), BATCH_PAIRS):
            yield table.slice(start, BATCH_PAIRS)


def _passing(
    batch: pa.Table, spec: BitextSpec, table: DomainTable, filters: Sequence[Filter], threads: int
) -> tuple[pa.Table, np.ndarray]:
    """Texts and domain numbers of the rows that pass the filters; the others are counted."""
    numbers = table.numbers(batch, spec)
    reasons = np.array(batch.column("reason").to_pylist(), object)
    unread = np.array([reason is None for reason in reasons], bool)
    left_out = np.array([rule.drop for rule in table.rules], bool)[numbers]
    reasons[unread & left_out] = Reason.DOMAIN
    open_rows = np.flatnonzero(unread & ~left_out)
    reasons[open_rows] = judge(PairBatch(batch.take(pa.array(open_rows)), spec, threads), filters)
    keep = np.array([reason is None for reason in reasons], bool)
    dropped = zip(compress(numbers.tolist(), ~keep), compress(reasons, ~keep), strict=True)
    for (number, reason), rows in Counter(dropped).items():
        counts = table.domains[number].dropped
        counts[str(reason)] = counts.get(str(reason), 0) + rows
    kept = batch.select(["source", "target"]).filter(pa.array(keep)).cast(_SCHEMA)
    return kept, numbers[keep].astype(np.uint16)


def _keys(kept: pa.Table) -> np.ndarray:
    """(2n,) uint64: the keys of source and target by turns."""
    keys = [np.fromiter(map(text_key, side.to_pylist()), np.uint64, len(kept)) for side in kept.columns]
    return np.stack(keys, axis=1).ravel()


def text_key(text: str) -> int:
    """A 64-bit number, equal for texts that are equal but for case, NFKC and white space
    (``dedup_key``)."""
    return int.from_bytes(dedup_key(text.casefold())[:8], "little")


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
        self.domains: list[ReadDomain] = []
        self.rules: list[DomainRule] = []
        """of each domain, the rule that counts"""

    def numbers(self, rows: pa.Table, spec: BitextSpec) -> np.ndarray:
        """(n,) int64: the numbers of the domains of some rows of one file."""
        if spec.domain is None:
            name = file_domain(rows.column("file")[0].as_py())
            return np.full(len(rows), self._number(name, spec.languages))
        labels = pc.fill_null(rows.column("domain"), "").combine_chunks().dictionary_encode()
        numbers = [self._number(name, spec.languages) for name in labels.dictionary.to_pylist()]
        return np.array(numbers, np.int64)[labels.indices.to_numpy()]

    def _number(self, name: str, languages: tuple[str, str] | None) -> int:
        """The number of the domain `name`; raises UsageError when there are too many."""
        name = name or NO_DOMAIN
        full = f"{'-'.join(languages)}/{name}" if languages else name
        known = self._numbers.get(full)
        if known is not None:
            return known
        if len(self.domains) == MAX_DOMAINS:
            raise UsageError(
                f"more than {MAX_DOMAINS:,} domains (the last is '{full[:80]}'): domain: names a column with something "
                "else; name the column that holds the domain"
            )
        number = self._numbers[full] = len(self.domains)
        rule = next((rule for rule in self._rules if _fits(rule, name, full)), _NO_RULE)
        self._bare.append(name)
        self.rules.append(rule)
        self.domains.append(ReadDomain(full, languages, rule.cap, rule.weight, {}))
        return number

    def warnings(self) -> list[str]:
        """A line for each rule that fits no domain, with the nearest names."""
        lines = []
        names = [domain.name for domain in self.domains]
        for rule in self._rules:
            if any(_fits(rule, *pair) for pair in zip(self._bare, names, strict=True)):
                continue
            known = list(dict.fromkeys([*self._bare, *names]))
            near = difflib.get_close_matches(rule.match, known, n=3, cutoff=0.3) or known[:3]
            lines.append(f"domains: no domain fits the pattern '{rule.match}'; the nearest are {', '.join(near)}")
        return lines


def file_domain(name: str) -> str:
    """The display name of a file without the extensions of its format and compression."""
    return os.path.splitext(without_compression(name))[0]


def _fits(rule: DomainRule, name: str, full: str) -> bool:
    return fnmatchcase(name, rule.match) or fnmatchcase(full, rule.match)


def name_inputs(specs: Sequence[BitextSpec]) -> str:
    """The first few paths, for messages."""
    paths = [path for spec in specs for path in spec.paths]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
