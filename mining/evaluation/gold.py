"""Gold standards of mining tasks: which source id is the translation of which target id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mining.errors import InputError, UsageError

#: Ids of a corpus: a collection or array of strings, or a function that says for a list of ids which it knows.
KnownIds: TypeAlias = Collection[str] | np.ndarray | pa.Array | pa.ChunkedArray | Callable[[list[str]], Sequence[bool]]

MAX_LINE_CHARS = 100_000


@dataclass(frozen=True)
class Gold:
    """Distinct gold pairs in the order of their file.

    `source`, `target` and `line` have one entry a pair; `domain` too, or is None when the file has no third column.
    `rows` counts all pairs read and `repeated` those that said again what an earlier line said.
    """

    path: str
    source: list[str]
    target: list[str]
    line: list[int]
    domain: list[str] | None
    rows: int
    repeated: int

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, Sequence[str]]], path: str = "gold") -> Gold:
        """Build a gold standard from (line, (source id, target id[, domain])) rows; the first of equal pairs stays."""
        seen: dict[tuple[str, str], tuple[int, str | None]] = {}
        total = 0
        for line, fields in rows:
            total += 1
            seen.setdefault((fields[0], fields[1]), (line, fields[2] if len(fields) == 3 else None))
        domains = [domain for _, domain in seen.values()]
        return cls(
            path=path,
            source=[source for source, _ in seen],
            target=[target for _, target in seen],
            line=[line for line, _ in seen.values()],
            domain=[d for d in domains if d is not None] if domains and None not in domains else None,
            rows=total,
            repeated=total - len(seen),
        )

    @classmethod
    def from_pairs(cls, pairs: Iterable[Sequence[str]], path: str = "gold") -> Gold:
        """Build a gold standard from (source id, target id[, domain]) tuples."""
        return cls.from_rows(enumerate(pairs, start=1), path)


def _gold_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    from mining.corpus.lines import FaultyLine, numbered_lines

    columns = 0
    for line, text in numbered_lines(str(path), "skip", MAX_LINE_CHARS):
        if isinstance(text, FaultyLine):
            raise InputError(
                f"{path}, line {line}: {text.reason.replace('_', ' ')} in a gold file: save it as UTF-8 ids"
            )
        if not text:
            continue
        fields = text.split("\t")
        columns = columns or len(fields)
        if len(fields) not in (2, 3) or len(fields) != columns or "" in fields:
            raise InputError(f"{path}, line {line}: {_fault(fields, columns)}")
        yield line, fields


def _fault(fields: list[str], columns: int) -> str:
    if "" in fields:
        return f"column {fields.index('') + 1} is empty: each line holds source id, tab, target id"
    if len(fields) not in (2, 3):
        count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        return f"{count}: a gold line holds source id, tab, target id (and, if you like, a tab and a domain)"
    return f"{len(fields)} columns where the lines before have {columns}: give every line a domain or none"


def read_gold(path: str | Path) -> Gold:
    r"""Read ``id<TAB>id`` lines, or ``id<TAB>id<TAB>domain``, compressed or not.

    Only ``\n`` ends a line, one trailing ``\r`` is stripped, blank lines are passed over, repeated pairs count once.
    Raises UsageError when the file is missing, InputError with file and line for another number of columns, an empty id
    or invalid UTF-8, and when there is no pair at all.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such gold file")
    gold = Gold.from_rows(_gold_rows(path), str(path))
    if not len(gold):
        raise InputError(f"{path}: holds no gold pairs: give the file with lines of source id, tab, target id")
    return gold


def known_mask(ids: list[str], known: KnownIds) -> np.ndarray:
    """Which of `ids` are in `known`: (n,) bool."""
    if callable(known):
        return np.asarray(known(ids), dtype=bool).reshape(len(ids))
    if isinstance(known, (pa.Array, pa.ChunkedArray)):
        queries = pa.array(ids, pa.large_string())
        return pc.is_in(queries, value_set=known.cast(pa.large_string())).to_numpy(zero_copy_only=False)
    if isinstance(known, np.ndarray) or not isinstance(known, (set, frozenset, dict)):
        known = set(known.tolist() if isinstance(known, np.ndarray) else known)
    return np.fromiter((i in known for i in ids), dtype=bool, count=len(ids))


def check_known(gold: Gold, known_source: KnownIds | None, known_target: KnownIds | None) -> None:
    """Raise InputError when gold ids are missing from a corpus, with their number, share, an example and the mend."""
    faults = []
    swapped = False
    other = {"source": known_target, "target": known_source}
    for side, ids, known in (("source", gold.source, known_source), ("target", gold.target, known_target)):
        if known is None:
            continue
        distinct = list(dict.fromkeys(ids))
        present = known_mask(distinct, known)
        missing = [i for i, here in zip(distinct, present, strict=True) if not here]
        if not missing:
            continue
        line = gold.line[ids.index(missing[0])]
        faults.append(
            f"{len(missing)} of {len(distinct)} {side} ids ({len(missing) / len(distinct):.1%}) are not in the {side} "
            f"corpus, for example '{missing[0]}' (line {line})"
        )
        there = other[side]
        swapped = swapped or (there is not None and bool(known_mask(missing, there).all()))
    if faults:
        raise InputError(f"{gold.path}: {' and '.join(faults)}: {_mend(swapped)}")


def _mend(swapped: bool) -> str:
    if swapped:
        return "they are in the other corpus: exchange the two columns of the gold file, or source and target"
    return (
        "give the gold file made for these corpora, and check that their id columns are declared "
        "(ids are never line numbers)"
    )
