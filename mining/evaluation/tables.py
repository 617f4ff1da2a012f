"""What evaluation reads from the tables of a run, block by block, keeping only what concerns gold
ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.errors import InputError, UsageError
from mining.schemas import SIDES, Reason
from mining.text_arrays import text_array

#: Ids, as a list or in Arrow.
Ids: TypeAlias = list[str] | pa.Array | pa.ChunkedArray
#: A table in memory, or the Parquet file to stream it from.
TableSource: TypeAlias = pa.Table | str | Path
#: The rank of a pair that no list has, above all others.
_ABSENT = np.iinfo(np.int32).max
BLOCK_ROWS = 524_288
_LEDGER_COLUMNS = dict.fromkeys(("side", "id", "reason", "kept_id"), pa.large_string())
_CANDIDATE_COLUMNS = {
    **dict.fromkeys(("source_id", "target_id"), pa.large_string()),
    **dict.fromkeys(("forward_rank", "backward_rank"), pa.int64()),
}


class IdIndex:
    """Distinct ids and their positions.

    `ids` are the distinct ones in order of first occurrence, `codes` (n,) int64 the position of
    each given id among them.
    """

    ids: pa.Array
    codes: NDArray[np.int64]

    def __init__(self, ids: Ids) -> None:
        encoded = id_array(ids).dictionary_encode()
        self.ids = encoded.dictionary
        self.codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, column: Ids) -> NDArray[np.int64]:
        """The position of each id of `column` (n,) among the distinct ones: (n,) int64, -1 for one
        that is not there, and for null."""
        found = pc.index_in(id_array(column), value_set=self.ids)
        return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def id_array(ids: Ids) -> pa.Array:
    """Ids as one Arrow array that holds more than 2 GiB of text if need be."""
    if isinstance(ids, list):
        return text_array(ids)
    array = ids.cast(pa.large_string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


class PairIndex:
    """Finds (source id, target id) pairs among some distinct pairs by array operations.

    `source` and `target` are the indexes of the ids of the sides, `pairs` (2, n) int64 the
    positions of the ids of each pair in them.
    """

    def __init__(self, source: IdIndex, target: IdIndex, pairs: NDArray[np.int64]) -> None:
        self.source, self.target = source, target
        keys = self._keys(*pairs)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def __len__(self) -> int:
        return len(self._sorted)

    def _keys(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
        return source * max(len(self.target), 1) + target

    def find(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number (n,) int64 of each pair, -1 if it is none, by the positions of its ids in
        the two indexes."""
        if not len(self._sorted):
            return np.full(len(source), -1, dtype=np.int64)
        keys = np.where((source >= 0) & (target >= 0), self._keys(source, target), -1)
        index = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[index] == keys, self._order[index], -1)


@dataclass(frozen=True)
class ScoredPairs:
    """The distinct mined pairs: `score` (n,) float64, `gold` (n,) int64 the number of the gold pair
    or -1.

    `source` and `target` (n,) are positions in the indexes `source_ids` and `target_ids`. `rows`
    counts the rows of the table.
    """

    score: NDArray[np.float64]
    gold: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    source_ids: IdIndex
    target_ids: IdIndex
    rows: int


def _index(pairs: pa.Table, name: str) -> IdIndex:
    column = pairs.column(name)
    if column.null_count:
        raise InputError(f"the mined pairs: {column.null_count} rows have no {name}: every pair needs both ids")
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        raise InputError(f"the mined pairs: column '{name}' is {column.type}: ids are texts or whole numbers")
    return IdIndex(column)


def join_pairs(pairs: pa.Table, gold: PairIndex) -> ScoredPairs:
    """Join mined pairs (columns score, source_id, target_id) with gold; of a repeated pair the best
    score counts.

    Raises InputError when a column is missing or a score is missing or not finite.
    """
    missing = [name for name in ("score", "source_id", "target_id") if name not in pairs.column_names]
    if missing:
        raise InputError(
            f"the mined pairs: column '{missing[0]}' is missing; there are {', '.join(pairs.column_names)}"
        )
    try:
        score = pairs.column("score").cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"the mined pairs: column 'score' holds no numbers: {error}") from None
    faulty = np.flatnonzero(~np.isfinite(score))
    if len(faulty):
        value = score[faulty[0]]
        has = "no score" if np.isnan(value) else f"the score {value}"
        raise InputError(f"the mined pairs: row {faulty[0] + 1} has {has} ({len(faulty)} such rows): score all pairs")
    sources, targets = _index(pairs, "source_id"), _index(pairs, "target_id")
    falling = np.argsort(-score, kind="stable")
    keys = sources.codes * max(len(targets), 1) + targets.codes
    distinct = np.sort(falling[np.unique(keys[falling], return_index=True)[1]])
    source, target = sources.codes[distinct], targets.codes[distinct]
    number = gold.find(gold.source.find(sources.ids)[source], gold.target.find(targets.ids)[target])
    return ScoredPairs(score[distinct], number, source, target, sources, targets, len(score))


def table_blocks(table: TableSource, columns: Mapping[str, pa.DataType], what: str) -> Iterator[pa.RecordBatch]:
    """The named columns of a table as these types, in blocks; raises InputError when one is missing
    or of another kind, or the file is damaged."""
    if isinstance(table, pa.Table):
        _require(table.column_names, list(columns), what)
        yield from (_cast(block, columns, what) for block in table.select(list(columns)).to_batches())
        return
    try:
        with open(table, "rb") as stream, pq.ParquetFile(stream) as file:  # whatever the bytes of its name
            _require(file.schema_arrow.names, list(columns), str(table))
            for block in file.iter_batches(batch_size=BLOCK_ROWS, columns=list(columns)):
                yield _cast(block, columns, str(table))
    except FileNotFoundError:
        raise UsageError(f"{table}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{table}: not a readable Parquet file: {error}") from None


def _cast(block: pa.RecordBatch, columns: Mapping[str, pa.DataType], what: str) -> pa.RecordBatch:
    values = []
    for name, kind in columns.items():
        column = block.column(name)
        try:
            values.append(column.cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{what}: column '{name}' is {column.type}, not {kind}: {error}") from None
    return pa.record_batch(values, names=list(columns))


def _require(names: list[str], columns: list[str], what: str) -> None:
    missing = [name for name in columns if name not in names]
    if missing:
        raise InputError(f"{what}: column '{missing[0]}' is missing; its columns are {', '.join(names)}")


@dataclass
class Ledger:
    """What the drop ledger says of some ids: per side, why a row was dropped and which id was kept
    instead of it."""

    reason: dict[str, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})
    kept: dict[str, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})

    def resolve(self, side: str, ids: pa.Array) -> pa.Array:
        """The ids (n,) whose texts stand for these rows: themselves, unless a row was dropped as a
        duplicate."""
        return _replaced(ids, self.kept[side])

    def reasons(self, side: str, ids: pa.Array) -> pa.Array:
        """Why each of these rows (n,) was dropped, null for one that was not."""
        return _looked_up(ids, self.reason[side])

    def holds(self, side: str, ids: pa.Array) -> NDArray[np.bool_]:
        """Which of these rows (n,) the ledger names: bool."""
        return IdIndex([*self.reason[side], *self.kept[side]]).find(ids) >= 0

    def add(self, dropped: TableSource, wanted: dict[str, IdIndex]) -> None:
        """Take in the rows of `dropped` that concern the `wanted` ids of each side."""
        for block in table_blocks(dropped, _LEDGER_COLUMNS, "the drop ledger"):
            for side, ids in wanted.items():
                rows = block.filter(pc.equal(block.column("side"), side))
                self._note(side, rows.filter(pa.array(ids.find(rows.column("id")) >= 0)))

    def _note(self, side: str, rows: pa.RecordBatch) -> None:
        columns = [rows.column(name).to_pylist() for name in ("id", "reason", "kept_id")]
        reasons, kept = self.reason[side], self.kept[side]
        for row_id, reason, kept_id in zip(*columns, strict=True):
            if reason == Reason.DUPLICATE and kept_id is not None:
                kept.setdefault(row_id, kept_id)
            else:
                reasons.setdefault(str(row_id), str(reason))


def _looked_up(ids: pa.Array, values: dict[str, str]) -> pa.Array:
    """The value of each id, null where there is none."""
    index = IdIndex(list(values)).find(ids)
    return id_array(list(values.values())).take(pa.array(index, mask=index < 0))


def _replaced(ids: pa.Array, values: dict[str, str]) -> pa.Array:
    """Each id, or its value where there is one."""
    return pc.coalesce(_looked_up(ids, values), ids) if values else ids


def read_ledger(dropped: TableSource | None, source_ids: IdIndex, target_ids: IdIndex) -> Ledger:
    """What `dropped` says of the given ids, and of the ids kept instead of them."""
    ledger = Ledger()
    if dropped is None:
        return ledger
    wanted = {"source": source_ids, "target": target_ids}
    ledger.add(dropped, wanted)
    further = {}
    for side in SIDES:
        kept = IdIndex(list(ledger.kept[side].values())).ids
        further[side] = IdIndex(kept.filter(pa.array(wanted[side].find(kept) < 0)))
    if any(len(ids) for ids in further.values()):
        ledger.add(dropped, further)
    return ledger


class RecallAt(TypedDict):
    """Recall@1 to recall@k of the neighbours: from the source, from the target, from either."""

    k: int
    forward: list[float]
    backward: list[float]
    union: list[float]


@dataclass(frozen=True)
class GoldRanks:
    """Where the candidates list each gold pair.

    `forward` and `backward` are (g,) int32 ranks counted from 1, 0 when not found from that side;
    `k` the highest rank of the whole table; `seen_source` and `seen_target` tell which ids of the
    index of gold pairs occur in it at all.
    """

    forward: NDArray[np.int32]
    backward: NDArray[np.int32]
    k: int
    seen_source: NDArray[np.bool_]
    seen_target: NDArray[np.bool_]

    @property
    def listed(self) -> NDArray[np.bool_]:
        """(g,) bool: the pair is among the neighbours of its source or of its target."""
        return (self.forward > 0) | (self.backward > 0)

    def recall_at(self) -> RecallAt:
        """Share of the gold pairs found among the first 1..k neighbours from the source, the
        target, either of them."""
        forward, backward = (np.where(ranks > 0, ranks, _ABSENT) for ranks in (self.forward, self.backward))
        union = np.minimum(forward, backward)
        shares = self._shares(forward), self._shares(backward), self._shares(union)
        return {"k": self.k, "forward": shares[0], "backward": shares[1], "union": shares[2]}

    def _shares(self, ranks: NDArray[np.int32]) -> list[float]:
        return [round(int((ranks <= rank).sum()) / max(len(ranks), 1), 6) for rank in range(1, self.k + 1)]


def gold_ranks(candidates: TableSource, index: PairIndex) -> GoldRanks:
    """Look up the gold pairs of an index in a table of candidates."""
    ranks = {name: np.full(len(index), _ABSENT, dtype=np.int64) for name in ("forward_rank", "backward_rank")}
    seen_source = np.zeros(len(index.source), dtype=bool)
    seen_target = np.zeros(len(index.target), dtype=bool)
    k = 0
    for block in table_blocks(candidates, _CANDIDATE_COLUMNS, "the table of candidates"):
        s, t = index.source.find(block.column("source_id")), index.target.find(block.column("target_id"))
        seen_source[s[s >= 0]] = True
        seen_target[t[t >= 0]] = True
        pair = index.find(s, t)
        for name, best in ranks.items():
            rank = pc.fill_null(block.column(name), 0).to_numpy(zero_copy_only=False)
            k = max(k, int(rank.max(initial=0)))
            hit = (pair >= 0) & (rank > 0)
            np.minimum.at(best, pair[hit], rank[hit])
    forward, backward = (np.where(best == _ABSENT, 0, best).astype(np.int32) for best in ranks.values())
    return GoldRanks(forward, backward, k, seen_source, seen_target)
