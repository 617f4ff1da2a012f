"""Gold standards of mining tasks: which source id is the translation of which target id."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.corpus.cells import find_cells, strings
from mining.corpus.compression import Digest
from mining.corpus.lines import FaultyLine, Line, read_blocks, split_cells, split_lines
from mining.errors import InputError, UsageError
from mining.evaluation.tables import IdIndex, Ledger, PairIndex
from mining.text_arrays import text_array

#: Ids of a corpus: a collection or array of strings, or a function that says for a list of ids
#: which it knows.
KnownIds: TypeAlias = (
    Collection[str] | NDArray[np.object_] | pa.Array | pa.ChunkedArray | Callable[[list[str]], Sequence[bool]]
)

MAX_LINE_CHARS = 100_000


@dataclass(frozen=True)
class Gold:
    """Distinct gold pairs in the order of their file.

    `source`, `target` and `line` have one entry a pair; `domain` too, or is None when the file has
    no third column. `rows` counts all pairs read and `repeated` those that said again what an
    earlier line said.
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

    @functools.cached_property
    def source_index(self) -> IdIndex:
        """The index of the source ids; its codes are those of the pairs."""
        return IdIndex(self.source)

    @functools.cached_property
    def target_index(self) -> IdIndex:
        """The index of the target ids; its codes are those of the pairs."""
        return IdIndex(self.target)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, Sequence[str]]], path: str = "gold") -> Gold:
        """Build a gold standard from (line, (source id, target id[, domain])) rows; the first of
        equal pairs stays."""
        return cls._from_columns([_columns(rows)], path)

    @classmethod
    def from_pairs(cls, pairs: Iterable[Sequence[str]], path: str = "gold") -> Gold:
        """Build a gold standard from (source id, target id[, domain]) tuples; lone surrogates
        become U+FFFD."""
        return cls.from_rows(enumerate(pairs, start=1), path)

    @classmethod
    def _from_columns(cls, parts: list[_Columns], path: str) -> Gold:
        lines = np.concatenate([part.lines for part in parts])
        source, target, domain = (pa.concat_arrays([part[i] for part in parts]) for i in (1, 2, 3))
        sources, targets = IdIndex(source), IdIndex(target)
        _, first = np.unique(sources.codes * max(len(targets), 1) + targets.codes, return_index=True)
        first.sort()
        chosen = pa.array(first)
        domains = domain.take(chosen)
        gold = cls(
            path=path,
            source=source.take(chosen).to_pylist(),
            target=target.take(chosen).to_pylist(),
            line=lines[first].tolist(),
            domain=domains.to_pylist() if len(first) and not domains.null_count else None,
            rows=len(lines),
            repeated=len(lines) - len(first),
        )
        if not gold.repeated:
            # What the cached properties would compute again.
            vars(gold).update(source_index=sources, target_index=targets)
        return gold


class _Columns(NamedTuple):
    """Gold rows by column: line numbers (n,) int64, and ids and domains in Arrow (a domain may be
    null)."""

    lines: NDArray[np.int64]
    source: pa.Array
    target: pa.Array
    domain: pa.Array


def _columns(rows: Iterable[tuple[int, Sequence[str]]]) -> _Columns:
    lines: list[int] = []
    columns: tuple[list[str | None], ...] = ([], [], [])
    for line, fields in rows:
        lines.append(line)
        for column, value in zip(columns, (*fields[:2], fields[2] if len(fields) == 3 else None), strict=True):
            column.append(value)
    source, target, domain = map(text_array, columns)
    return _Columns(np.array(lines, dtype=np.int64), source, target, domain)


class _Reader:
    """Gold rows of blocks of lines; `width` is the number of columns of the lines so far, 0 before
    the first."""

    def __init__(self, path: Path) -> None:
        self.path, self.width = path, 0

    def columns(self, first: int, block: bytes | list[Line]) -> _Columns:
        """The rows of a block that begins with line `first`."""
        if isinstance(block, bytes):
            self.width = self.width or _first_width(block)
            cut = self._cut(first, block) if self.width in (2, 3) else None
            if cut is not None:
                return cut
            block = split_lines(block)
        return _columns(self._rows(first, block))

    def _cut(self, first: int, block: bytes) -> _Columns | None:
        """The rows without a Python object each; None where a line has something wrong."""
        cells = find_cells(block, self.width)
        filled = (cells.stops > cells.starts).all(axis=1) & cells.whole
        empty = (cells.tabs == 0) & (cells.stops[:, 0] == cells.starts[:, 0])
        if not (filled | empty).all():
            return None
        rows = np.flatnonzero(filled)
        bounds = zip(cells.starts[rows].T, cells.stops[rows].T, strict=True)
        columns = [strings(cells.data, *pair).cast(_TEXT) for pair in bounds]
        domain = columns[2] if self.width == 3 else pa.nulls(len(rows), _TEXT)
        return _Columns(first + rows, columns[0], columns[1], domain)

    def _rows(self, first: int, lines: list[Line]) -> Iterator[tuple[int, list[str]]]:
        for line, text in enumerate(lines, first):
            if isinstance(text, FaultyLine):
                raise InputError(f"{self.path}, line {line}: {text.reason.words} in a gold file: save it as UTF-8 ids")
            fields = split_cells(text)
            if fields == [""]:
                continue
            self.width = self.width or len(fields)
            if len(fields) not in (2, 3) or len(fields) != self.width or "" in fields:
                raise InputError(f"{self.path}, line {line}: {_fault(fields, self.width)}")
            yield line, fields


_TEXT = pa.large_string()


def _first_width(block: bytes) -> int:
    """The columns of the first line that is not blank, 0 if all are."""
    line = next((line for line in block.split(b"\n") if line.replace(codecs.BOM_UTF8, b"").removesuffix(b"\r")), None)
    return 0 if line is None else line.count(b"\t") + 1


def _fault(fields: list[str], columns: int) -> str:
    if "" in fields:
        return f"column {fields.index('') + 1} is empty: each line holds source id, tab, target id"
    if len(fields) not in (2, 3):
        count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        return f"{count}: a gold line holds source id, tab, target id (and, if you like, a tab and a domain)"
    return f"{len(fields)} columns where the lines before have {columns}: give every line a domain or none"


def read_gold(path: str | Path, digest: Digest | None = None) -> Gold:
    r"""Read ``id<TAB>id`` lines, or ``id<TAB>id<TAB>domain``, compressed or not.

    Only ``\n`` ends a line, one trailing ``\r`` is stripped, blank lines are passed over, repeated
    pairs count once. `digest` is given the bytes of the file as they are read. Raises UsageError
    when the file is missing, InputError with file and line for another number of columns, an empty
    id or invalid UTF-8, and when there is no pair at all."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such gold file")
    reader = _Reader(path)
    parts = [reader.columns(*part) for part in read_blocks(str(path), "skip", MAX_LINE_CHARS, digest=digest)]
    gold = Gold._from_columns([_columns([]), *parts], str(path))
    if not len(gold):
        raise InputError(f"{path}: holds no gold pairs: give the file with lines of source id, tab, target id")
    return gold


@dataclass(frozen=True)
class KeptGold:
    """Distinct gold pairs after every duplicate id gave way to the id that was kept.

    `source` and `target` (g,) are the kept ids and `index` finds these pairs; `first` (g,) int64
    are the entries of the gold standard that led there first, and `number` tells for each entry of
    the gold standard which of the g pairs it is.
    """

    source: pa.Array
    target: pa.Array
    index: PairIndex
    first: NDArray[np.int64]
    number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def keep_gold(gold: Gold, ledger: Ledger) -> KeptGold:
    """Map the gold ids through the ledger's kept ids and merge the pairs that become equal."""
    sources, source = _kept(gold.source_index, ledger, "source")
    targets, target = _kept(gold.target_index, ledger, "target")
    keys = source * max(len(targets), 1) + target
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    first = first[order].astype(np.int64)
    pairs = np.stack([source[first], target[first]])
    ids = sources.ids.take(pa.array(pairs[0])), targets.ids.take(pa.array(pairs[1]))
    return KeptGold(*ids, PairIndex(sources, targets, pairs), first, rank[group])


def _kept(index: IdIndex, ledger: Ledger, side: str) -> tuple[IdIndex, NDArray[np.int64]]:
    """The index of the kept ids, and the position (n,) int64 of the one that stands for each gold
    id."""
    if not ledger.kept[side]:
        return index, index.codes
    kept = IdIndex(ledger.resolve(side, index.ids))
    return kept, kept.codes[index.codes]


def known_mask(ids: list[str], known: KnownIds) -> NDArray[np.bool_]:
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
    """Raise InputError when gold ids are missing from a corpus, with their number, share, an
    example and the mend."""
    faults = []
    sides = ("source", gold.source, known_source), ("target", gold.target, known_target)
    for side, ids, known in sides:
        if known is None:
            continue
        distinct = getattr(gold, f"{side}_index").ids
        missing = distinct.filter(pa.array(~known_mask(distinct.to_pylist(), known))).to_pylist()
        if missing:
            faults.append(
                f"{len(missing)} of {len(distinct)} {side} ids ({len(missing) / len(distinct):.1%}) are not in the "
                f"{side} corpus, for example '{missing[0]}' (line {gold.line[ids.index(missing[0])]})"
            )
    if faults:
        swapped = _all_known(gold.source, known_target) and _all_known(gold.target, known_source)
        raise InputError(f"{gold.path}: {' and '.join(faults)}: {_mend(swapped)}")


def _all_known(ids: list[str], known: KnownIds | None) -> bool:
    return known is not None and bool(known_mask(ids, known).all())


def _mend(swapped: bool) -> str:
    if swapped:
        return "they are in the other corpus: exchange the two columns of the gold file, or source and target"
    return (
        "give the gold file made for these corpora, and check that their id columns are declared "
        "(ids are never line numbers)"
    )
