"""Make one shard of distinct, usable sentences from consecutive chunks: id, text and number of
occurrences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mining.io.parquet import read_parquet, write_parquet
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array
from pipelines.transforms.dedup import DUPLICATE

SHARD_SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("occurrences", pa.int64())])


def duplicates_in(paths: list[str], column: str, chunk: int) -> NDArray[np.void]:
    """The duplicates of all buckets with this chunk in `column` (``chunk``, by which they are
    sorted, or ``kept_chunk``)."""
    tables = [open_array(path, DUPLICATE, (None,)) for path in paths]
    if column == "chunk":
        limits = [np.searchsorted(table["chunk"], [chunk, chunk + 1]) for table in tables]
        return np.concatenate([np.empty(0, DUPLICATE), *(t[a:b] for t, (a, b) in zip(tables, limits, strict=True))])
    return np.concatenate([np.empty(0, DUPLICATE), *(table[table[column] == chunk] for table in tables)])


def kept_rows(chunk: pa.Table, paths: list[str], number: int) -> NDArray[np.bool_]:
    """Which rows of a chunk are usable and no duplicate: (rows,) bool."""
    keep = pc.is_null(chunk.column("reason")).to_numpy(zero_copy_only=False).copy()
    keep[duplicates_in(paths, "chunk", number)["position"]] = False
    return keep


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `first` chunk number; lists: the `chunks` of this shard, the `duplicates` of all
    buckets of the side."""
    paths = step.files("duplicates").paths

    def blocks() -> Iterator[pa.Table]:
        for number, path in enumerate(step.files("chunks").paths, step.params["first"]):
            table = read_parquet(path, columns=["id", "text", "reason"])
            keep = kept_rows(table, paths, number)
            occurrences = np.ones(len(table), dtype=np.int64)
            np.add.at(occurrences, duplicates_in(paths, "kept_chunk", number)["kept_position"], 1)
            table = table.drop_columns("reason").append_column("occurrences", pa.array(occurrences))
            yield table.filter(pa.array(keep))

    return {"rows": write_parquet(outputs.path(f"{step.name}.parquet"), SHARD_SCHEMA, blocks())}
