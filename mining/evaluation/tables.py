"""What evaluation reads from the tables of a run, block by block, keeping only what concerns gold
ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mining.errors import InputError, UsageError
from mining.evaluation.ids import IdIndex, id_array
from mining.schemas import Reason

#: A table in memory, or the Parquet file to stream it from.
TableSource: TypeAlias = pa.Table | str | Path
SIDES = ("source", "target")
BLOCK_ROWS = 524_288
_LEDGER_COLUMNS = dict.fromkeys(("side", "id", "reason", "kept_id"), pa.large_string())
_CANDIDATE_COLUMNS = {
    **dict.fromkeys(("source_id", "target_id"), pa.large_string()),
    **dict.fromkeys(("forward_rank", "backward_rank"), pa.int64()),
}


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

    def holds(self, side: str, ids: pa.Array) -> np.ndarray:
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
    place = IdIndex(list(values)).find(ids)
    return id_array(list(values.values())).take(pa.array(place, mask=place < 0))


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


@dataclass(frozen=True)
class GoldRanks:
    """Where the candidates list each gold pair.

    `forward` and `backward` are (g,) int32 ranks counted from 1, 0 when not found from that side;
    `k` the highest rank of the whole table; `seen_source` and `seen_target` tell which ids of the
    index of gold pairs occur in it at all.
    """

    forward: np.ndarray
    backward: np.ndarray
    k: int
    seen_source: np.ndarray
    seen_target: np.ndarray

    @property
    def listed(self) -> np.ndarray:
        """(g,) bool: the pair is among the neighbours of its source or of its target."""
        return (self.forward > 0) | (self.backward > 0)

    def recall_at(self) -> dict[str, int | list[float]]:
        """Share of the gold pairs found among the first 1..k neighbours from the source, the
        target, either of them."""
        report: dict[str, int | list[float]] = {"k": self.k}
        absent = np.iinfo(np.int32).max
        forward = np.where(self.forward > 0, self.forward, absent)
        backward = np.where(self.backward > 0, self.backward, absent)
        for name, ranks in (("forward", forward), ("backward", backward), ("union", np.minimum(forward, backward))):
            total = max(len(ranks), 1)
            report[name] = [round(int((ranks <= r).sum()) / total, 6) for r in range(1, self.k + 1)]
        return report


class PairIndex:
    """Finds (source id, target id) pairs among some distinct pairs by array operations.

    `source` and `target` are the indexes of the ids of the sides, `pairs` (2, n) int64 the places
    of the ids of each pair in them.
    """

    def __init__(self, source: IdIndex, target: IdIndex, pairs: np.ndarray) -> None:
        self.source, self.target = source, target
        keys = self._keys(*pairs)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def __len__(self) -> int:
        return len(self._sorted)

    def _keys(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return source * max(len(self.target), 1) + target

    def find(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The number (n,) int64 of each pair, -1 if it is none, for places of its ids in the two
        indexes."""
        if not len(self._sorted):
            return np.full(len(source), -1, dtype=np.int64)
        keys = np.where((source >= 0) & (target >= 0), self._keys(source, target), -1)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[place] == keys, self._order[place], -1)


def gold_ranks(candidates: TableSource, index: PairIndex) -> GoldRanks:
    """Look up the gold pairs of an index in a table of candidates."""
    absent = np.iinfo(np.int32).max
    ranks = {name: np.full(len(index), absent, dtype=np.int64) for name in ("forward_rank", "backward_rank")}
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
    forward, backward = (np.where(best == absent, 0, best).astype(np.int32) for best in ranks.values())
    return GoldRanks(forward, backward, k, seen_source, seen_target)
