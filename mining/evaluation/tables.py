"""What evaluation reads from the tables of a run, block by block, keeping only what concerns gold ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mining.errors import InputError, UsageError

#: A table in memory, or the Parquet file to stream it from.
TableSource: TypeAlias = pa.Table | str | Path
SIDES = ("source", "target")
BLOCK_ROWS = 262_144


def table_blocks(table: TableSource, columns: list[str], what: str) -> Iterator[pa.RecordBatch]:
    """The named columns of a table, in blocks; raises InputError when one is missing or the file is damaged."""
    if isinstance(table, pa.Table):
        _require(table.column_names, columns, what)
        yield from table.select(columns).to_batches()
        return
    try:
        with pq.ParquetFile(table) as file:
            _require(file.schema_arrow.names, columns, str(table))
            yield from file.iter_batches(batch_size=BLOCK_ROWS, columns=columns)
    except FileNotFoundError:
        raise UsageError(f"{table}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{table}: not a readable Parquet file: {error}") from None


def _require(names: list[str], columns: list[str], what: str) -> None:
    missing = [name for name in columns if name not in names]
    if missing:
        raise InputError(f"{what}: column '{missing[0]}' is missing; its columns are {', '.join(names)}")


def id_array(ids: list[str]) -> pa.Array:
    """Ids as an Arrow array that holds more than 2 GiB of text if need be."""
    return pa.array(ids, pa.large_string())


def positions(column: pa.Array | pa.ChunkedArray, ids: pa.Array) -> np.ndarray:
    """Where each value of `column` (n,) stands in the distinct `ids`: (n,) int64, -1 for those elsewhere."""
    found = pc.index_in(column.cast(pa.large_string()), value_set=ids)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)


@dataclass
class Ledger:
    """What the drop ledger says of some ids: per side, why a row was dropped and which id was kept instead of it."""

    reason: dict[str, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})
    kept: dict[str, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})

    def resolve(self, side: str, row_id: str) -> str:
        """The id whose text stands for this row: itself, unless the row was dropped as a duplicate."""
        return self.kept[side].get(row_id, row_id)

    def add(self, dropped: TableSource, wanted: dict[str, list[str]]) -> None:
        """Take in the rows of `dropped` that concern the `wanted` ids of each side."""
        value_sets = {side: id_array(list(dict.fromkeys(ids))) for side, ids in wanted.items()}
        for block in table_blocks(dropped, ["side", "id", "reason", "kept_id"], "the drop ledger"):
            for side, ids in value_sets.items():
                mask = pc.and_(
                    pc.equal(block.column("side"), side),
                    pc.is_in(block.column("id").cast(pa.large_string()), value_set=ids),
                )
                for row in block.filter(mask).to_pylist():
                    self._note(side, row)

    def _note(self, side: str, row: dict[str, str | None]) -> None:
        row_id, kept_id = str(row["id"]), row["kept_id"]
        if row["reason"] == "duplicate" and kept_id is not None:
            self.kept[side].setdefault(row_id, kept_id)
        else:
            self.reason[side].setdefault(row_id, str(row["reason"]))


def read_ledger(dropped: TableSource | None, source_ids: list[str], target_ids: list[str]) -> Ledger:
    """What `dropped` says of the given ids, and of the ids kept instead of them."""
    ledger = Ledger()
    if dropped is None:
        return ledger
    wanted = {"source": source_ids, "target": target_ids}
    ledger.add(dropped, wanted)
    further = {side: sorted(set(ledger.kept[side].values()) - set(wanted[side])) for side in SIDES}
    if any(further.values()):
        ledger.add(dropped, further)
    return ledger


@dataclass(frozen=True)
class GoldRanks:
    """Where the candidates list each gold pair.

    `forward` and `backward` are (g,) int32 ranks counted from 1, 0 when not found from that side; `k` the highest rank
    of the whole table; `seen_source` and `seen_target` the gold ids that occur in it at all.
    """

    forward: np.ndarray
    backward: np.ndarray
    k: int
    seen_source: set[str]
    seen_target: set[str]

    @property
    def listed(self) -> np.ndarray:
        """(g,) bool: the pair is among the neighbours of its source or of its target."""
        return (self.forward > 0) | (self.backward > 0)

    def recall_at(self) -> dict[str, int | list[float]]:
        """Share of the gold pairs found among the first 1..k neighbours from the source, the target, either of them."""
        report: dict[str, int | list[float]] = {"k": self.k}
        absent = np.iinfo(np.int32).max
        forward = np.where(self.forward > 0, self.forward, absent)
        backward = np.where(self.backward > 0, self.backward, absent)
        for name, ranks in (("forward", forward), ("backward", backward), ("union", np.minimum(forward, backward))):
            total = max(len(ranks), 1)
            report[name] = [round(int((ranks <= r).sum()) / total, 6) for r in range(1, self.k + 1)]
        return report


class PairIndex:
    """Finds (source id, target id) pairs among some distinct pairs by array operations."""

    def __init__(self, source: list[str], target: list[str]) -> None:
        self.source_ids = id_array(list(dict.fromkeys(source)))
        self.target_ids = id_array(list(dict.fromkeys(target)))
        keys = self._keys(positions(id_array(source), self.source_ids), positions(id_array(target), self.target_ids))
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def _keys(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        return source * max(len(self.target_ids), 1) + target

    def find(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The number (n,) int64 of each pair, -1 if it is none, for positions in `source_ids` and `target_ids`."""
        if not len(self._sorted):
            return np.full(len(source), -1, dtype=np.int64)
        keys = np.where((source >= 0) & (target >= 0), self._keys(source, target), -1)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[place] == keys, self._order[place], -1)


def gold_ranks(candidates: TableSource, source: list[str], target: list[str]) -> GoldRanks:
    """Look up the distinct gold pairs ``source[i], target[i]`` in a table of candidates."""
    index = PairIndex(source, target)
    absent = np.iinfo(np.int32).max
    ranks = {name: np.full(len(source), absent, dtype=np.int64) for name in ("forward_rank", "backward_rank")}
    seen_source = np.zeros(len(index.source_ids), dtype=bool)
    seen_target = np.zeros(len(index.target_ids), dtype=bool)
    k = 0
    for block in table_blocks(candidates, ["source_id", "target_id", *ranks], "the table of candidates"):
        s = positions(block.column("source_id"), index.source_ids)
        t = positions(block.column("target_id"), index.target_ids)
        seen_source[s[s >= 0]] = True
        seen_target[t[t >= 0]] = True
        pair = index.find(s, t)
        for name, best in ranks.items():
            rank = pc.fill_null(block.column(name), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            k = max(k, int(rank.max(initial=0)))
            hit = (pair >= 0) & (rank > 0)
            np.minimum.at(best, pair[hit], rank[hit])
    forward, backward = (np.where(best == absent, 0, best).astype(np.int32) for best in ranks.values())
    return GoldRanks(
        forward=forward,
        backward=backward,
        k=k,
        seen_source=set(index.source_ids.filter(pa.array(seen_source)).to_pylist()),
        seen_target=set(index.target_ids.filter(pa.array(seen_target)).to_pylist()),
    )
