"""Find the duplicates of one side within one bucket of keys: equal texts, and ids that stand twice
(an error)."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.corpus import first_occurrence
from mining.errors import InputError
from mining.io.parquet import read_parquet
from pipelines.artefacts import Outputs, Step
from pipelines.sharded import open_array
from pipelines.transforms.read import KEY

#: A duplicate: the chunk and position of the row, and of the row whose text is kept.
DUPLICATE = np.dtype([("chunk", "<i8"), ("position", "<i8"), ("kept_chunk", "<i8"), ("kept_position", "<i8")])


def _bucket(step: Step, kind: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Keys (n, 16), chunks and positions of the bucket's rows in all chunks."""
    bucket, buckets = step.params["bucket"], step.params["buckets"]
    low, high = (bucket << 64) // buckets, ((bucket + 1) << 64) // buckets
    parts, chunks = [np.empty(0, dtype=KEY)], [np.empty(0, dtype=np.int64)]
    for number, path in enumerate(step.files(kind).paths):
        table = open_array(path, KEY, (None,))
        start = bisect.bisect_left(table, low, key=lambda row: int(row["high"]))
        stop = bisect.bisect_left(table, high, key=lambda row: int(row["high"]))
        parts.append(np.array(table[start:stop]))
        chunks.append(np.full(stop - start, number, dtype=np.int64))
    table = np.concatenate(parts)
    keys = np.ascontiguousarray(np.stack([table["high"], table["low"]], axis=1)).view(np.uint8).reshape(-1, 16)
    return keys, np.concatenate(chunks), table["position"].astype(np.int64)


def _place(step: Step, chunk: int, position: int) -> str:
    table = read_parquet(step.files("chunks").paths[chunk], columns=["id", "file", "line"])
    row = table.slice(position, 1).to_pylist()[0]
    return f"{row['file']}, line {row['line']} (id '{row['id']}')"


def _check_ids(step: Step) -> None:
    keys, chunks, positions = _bucket(step, "ids")
    first = first_occurrence(keys, chunks, positions)
    again = np.flatnonzero(first != np.arange(len(first)))
    if len(again):
        i = again[np.lexsort((positions[again], chunks[again]))[0]]
        places = (
            _place(step, int(chunks[first[i]]), int(positions[first[i]])),
            _place(step, int(chunks[i]), int(positions[i])),
        )
        raise InputError(
            f"{places[1]}: this id stands twice on the {step.params['side']} side, first at {places[0]}; "
            "give every row its own id"
        )


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `side`, `bucket` of `buckets`; lists: `chunks`, the keys of their `texts` and of
    their `ids`."""
    _check_ids(step)
    keys, chunks, positions = _bucket(step, "texts")
    first = first_occurrence(keys, chunks, positions)
    again = np.flatnonzero(first != np.arange(len(first)))
    found = np.empty(len(again), dtype=DUPLICATE)
    found["chunk"], found["position"] = chunks[again], positions[again]
    found["kept_chunk"], found["kept_position"] = chunks[first[again]], positions[first[again]]
    found = found[np.lexsort((found["position"], found["chunk"]))]
    with open(outputs.path(f"{step.name}.npy"), "wb") as out:
        np.save(out, found, allow_pickle=False)
    per_chunk = np.bincount(found["chunk"], minlength=len(step.files("chunks").paths))
    return {"duplicates": per_chunk.tolist()}
