"""Read one input file: row rules, chunks of bounded size, and the keys by which duplicates are
found.

Each chunk is a Parquet file of all its rows, usable or not, and two sorted arrays of keys: of its
texts and of its ids.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.corpus import CorpusSpec, InputFile, read_tables
from mining.corpus.dedup import key_order
from mining.corpus.keys import id_keys, text_keys
from mining.errors import InputError
from mining.io.files import new_digest
from mining.io.parquet import write_parquet
from pipelines.artefacts import Outputs, Step

#: What is kept of a row.
_ROWS = [
    ("id", pa.string()),
    ("text", pa.string()),
    ("file", pa.string()),
    ("line", pa.int64()),
    ("reason", pa.string()),
]
ROWS_SCHEMA = pa.schema(_ROWS)
#: A key as two numbers, so that a bucket of keys is a range of the first, and the place of its row
#: in the chunk.
KEY = np.dtype([("high", ">u8"), ("low", ">u8"), ("position", "<i8")])


def sorted_keys(keys: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.void]:
    """Keys (n, 16) and the rising positions (n,) of their rows, by key and position."""
    halves = keys.view(">u8").astype(np.uint64)
    order = key_order(halves[:, 0], halves[:, 1], positions)
    table = np.empty(len(keys), dtype=KEY)
    table["high"], table["low"], table["position"] = halves[order, 0], halves[order, 1], positions[order]
    return table


class _Chunk:
    """Rows until the chunk is full, as Arrow tables, and their keys."""

    def __init__(self, rows: int, size: int, threads: int) -> None:
        self.limits, self.threads = (rows, size), threads
        self.tables: list[pa.Table] = []
        self.text_keys, self.text_positions = [np.empty((0, 16), np.uint8)], [np.empty(0, np.int64)]
        self.id_keys = [np.empty((0, 16), np.uint8)]
        self.rows = self.bytes = 0
        self.reasons: Counter[str] = Counter()

    def take(self, table: pa.Table) -> int:
        """Add the first rows of a table until the chunk is full; returns how many that are. An
        empty chunk takes at least one."""
        before = np.cumsum(pc.binary_length(table.column("text")).to_numpy())
        before = np.concatenate(([0], before)) + self.bytes
        count = min(self.limits[0] - self.rows, int(np.searchsorted(before[:-1], self.limits[1])))
        if count > 0:
            self._add(table.slice(0, count), int(before[count]))
        return max(count, 0)

    def _add(self, table: pa.Table, size: int) -> None:
        table = table.combine_chunks()
        usable = np.flatnonzero(pc.is_null(table.column("reason")).to_numpy())
        texts = table.column("text").chunk(0)
        texts = texts if len(usable) == len(table) else texts.take(pa.array(usable))
        self.text_keys.append(text_keys(texts, self.threads))
        self.text_positions.append(self.rows + usable)
        self.id_keys.append(id_keys(table.column("id").chunk(0), self.threads))
        if len(usable) < len(table):
            self.reasons.update(table.column("reason").drop_null().to_pylist())
        self.tables.append(table.select(ROWS_SCHEMA.names))
        self.rows, self.bytes = self.rows + len(table), size

    def write(self, outputs: Outputs, name: str) -> dict[str, Any]:
        """Write the files of the chunk; returns its facts."""
        write_parquet(outputs.path(f"{name}.parquet"), ROWS_SCHEMA, self.tables)
        positions = np.concatenate(self.text_positions)
        _save(outputs.path(f"{name}.texts.npy"), sorted_keys(np.concatenate(self.text_keys), positions))
        _save(outputs.path(f"{name}.ids.npy"), sorted_keys(np.concatenate(self.id_keys), np.arange(self.rows)))
        return {"name": name, "rows": self.rows, "usable": len(positions), "bytes": self.bytes}


def _save(path: str, array: NDArray[Any]) -> None:
    with open(path, "wb") as out:
        np.save(out, array, allow_pickle=False)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `spec` (a `CorpusSpec`), `name` of the file, `rows` and `bytes` a chunk; input: the
    file; execution: `threads`. Raises InputError when the file is not what the run began with."""
    spec = CorpusSpec.model_validate(step.params["spec"])
    ((path, wanted),) = step.inputs.items()
    file = InputFile(path=path, name=step.params["name"])
    digest = new_digest()
    limits = step.params["rows"], step.params["bytes"], step.execution.get("threads", 1)
    chunks: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    replaced = 0
    chunk = _Chunk(*limits)

    def close() -> None:
        chunks.append(chunk.write(outputs, f"{step.name}.{len(chunks):05d}"))
        reasons.update(chunk.reasons)

    for table in read_tables(spec, file, digest):
        replaced += pc.sum(table.column("replaced")).as_py() or 0
        while len(table):
            taken = chunk.take(table)
            if taken == 0:
                close()
                chunk = _Chunk(*limits)
            table = table.slice(taken)
    if digest.hexdigest() != wanted:
        raise InputError(f"{path}: changed while it was read: run the command again")
    if chunk.rows:
        close()
    return {"chunks": chunks, "reasons": dict(sorted(reasons.items())), "replaced": replaced}
