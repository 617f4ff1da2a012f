"""First pass: the rows of all bitexts through the filters; what may stay is spooled to disk with
its keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mining.config.data import DataConfig
from mining.corpus import BitextSpec, Row, read_rows, row_blocks
from mining.errors import InputError
from mining.io.arrays import GrowingArray
from mining.io.atomic import replacing
from mining.io.json_file import read_json, write_json
from mining.schemas import Reason
from mining.training.data.domains import DomainTable, Labels
from mining.training.data.filters import PairFilter
from mining.training.data.measures import text_key

BLOCK_PAIRS = 8192
_BLOCK_CHARS = 8 << 20
_TEXTS, _KEYS, _DOMAIN, _FACTS = "read.arrow", "read.keys.npy", "read.domain.npy", "read.json"
_SCHEMA = pa.schema([("source", pa.large_string()), ("target", pa.large_string())])

Report = Callable[[str, int], None]
"""Is told the stage and the pairs done in it."""


@dataclass(frozen=True)
class DomainFacts:
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
    """(n,) uint16: place in `domains`"""
    domains: list[DomainFacts]
    rows: int
    """rows read, dropped ones included"""
    warnings: list[str]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the spool."""
        return _TEXTS, _KEYS, _DOMAIN, _FACTS

    def blocks(self, keep: np.ndarray) -> Iterator[tuple[list[str], list[str]]]:
        """Sources and targets of the pairs for which `keep`, (n,) bool, is true, block by block."""
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
    """Filter the bitexts into `folder`, or take up what an earlier call finished there."""
    if not (folder / _FACTS).is_file():
        table = DomainTable(config.domains)
        rows = _spool(config, folder, table, report, threads)
        domains = [
            {"name": name, "languages": languages, "cap": rule.cap, "weight": rule.weight, "dropped": dropped}
            for name, languages, rule, dropped in zip(
                table.names, table.languages, table.rules, table.dropped, strict=True
            )
        ]
        facts = {"rows": rows, "domains": domains, "warnings": table.warnings()}
        write_json(folder / _FACTS, facts, sort_keys=False)
    facts = read_json(folder / _FACTS)
    return Spool(
        folder / _TEXTS,
        np.load(folder / _KEYS).reshape(-1, 2),
        np.load(folder / _DOMAIN),
        [_domain(entry) for entry in facts["domains"]],
        facts["rows"],
        facts["warnings"],
    )


def _domain(entry: dict[str, Any]) -> DomainFacts:
    languages = entry.pop("languages")
    return DomainFacts(languages=tuple(languages) if languages else None, **entry)


def _spool(config: DataConfig, folder: Path, table: DomainTable, report: Report, threads: int) -> int:
    """Write what passes the filters; returns the number of rows read."""
    encoder = None
    if config.filters.by_similarity and config.filters.similarity_model is not None:
        from mining.encoder import load_encoder

        encoder = load_encoder(config.filters.similarity_model)
    rows = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        temporary = stack.enter_context(replacing(folder / _TEXTS))
        file = stack.enter_context(pa.OSFile(os.fsencode(temporary), "wb"))
        texts = stack.enter_context(pa.ipc.new_file(file, _SCHEMA, options=options))
        keys = stack.enter_context(GrowingArray(folder / _KEYS, "uint64"))
        domain = stack.enter_context(GrowingArray(folder / _DOMAIN, "uint16"))
        for spec in config.bitext:
            labels = Labels(spec, table)
            pair_filter = PairFilter(config.filters, spec, encoder, threads)
            for block in row_blocks(read_rows(spec), BLOCK_PAIRS, _BLOCK_CHARS):
                kept, numbers = _passing(block, labels, table, pair_filter)
                rows += len(block)
                if kept:
                    sides = [[row.texts[side] for row in kept] for side in (0, 1)]
                    texts.write_batch(pa.record_batch([pa.array(side, pa.large_string()) for side in sides], _SCHEMA))
                    keys.append(_keys(sides[0], sides[1]))
                    domain.append(np.array(numbers, np.uint16))
                report("reading", rows)
        if not rows:
            raise InputError(f"{name_inputs(config.bitext)}: there is no row in it; name files with pairs of sentences")
    return rows


def _passing(
    block: list[Row], labels: Labels, table: DomainTable, pair_filter: PairFilter
) -> tuple[list[Row], list[int]]:
    """The rows that pass the filters, and the numbers of their domains; the others are counted."""
    usable: list[Row] = []
    numbers: list[int] = []
    for row in block:
        number = labels.number(row)
        if row.reason is not None:
            table.dropped[number][row.reason] += 1
        elif table.rules[number].drop:
            table.dropped[number][Reason.DOMAIN] += 1
        else:
            usable.append(row)
            numbers.append(number)
    kept: list[Row] = []
    kept_numbers: list[int] = []
    for row, number, reason in zip(usable, numbers, pair_filter.reasons(usable), strict=True):
        if reason is None:
            kept.append(row)
            kept_numbers.append(number)
        else:
            table.dropped[number][reason] += 1
    return kept, kept_numbers


def _keys(source: list[str], target: list[str]) -> np.ndarray:
    """(2n,) uint64: the keys of source and target by turns."""
    keys = np.empty((len(source), 2), np.uint64)
    for side, texts in enumerate((source, target)):
        keys[:, side] = np.fromiter(map(text_key, texts), np.uint64, len(texts))
    return keys.ravel()


def name_inputs(specs: list[BitextSpec]) -> str:
    """The first few paths, for messages."""
    paths = [path for spec in specs for path in spec.paths]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
