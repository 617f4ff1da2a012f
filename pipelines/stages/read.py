"""Read one input file: row rules, chunks of bounded size, and the keys by which duplicates are found.

Each chunk is a Parquet file of all its rows, usable or not, and two sorted arrays of keys: of its texts and of its
ids.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.corpus import CorpusSpec, InputFile, Row, dedup_key, read_file
from mining.corpus.dedup import KEY_BYTES
from mining.pairs import write_parquet
from pipelines.artefacts import Outputs, Step

CHUNK_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string())]
)
#: A key as two numbers, so that a bucket of keys is a range of the first, and the place of its row in the chunk.
KEY = np.dtype([("high", ">u8"), ("low", ">u8"), ("position", "<i8")])
#: Rows turned into Arrow at a time: Python strings cost several times their text.
_BLOCK = 8192


def sorted_keys(keys: list[bytes], positions: list[int]) -> NDArray[np.void]:
    """Keys of 16 bytes and the positions of their rows, by key."""
    table = np.empty(len(keys), dtype=KEY)
    halves = np.frombuffer(b"".join(keys), dtype=">u8").reshape(-1, 2)
    table["high"], table["low"], table["position"] = halves[:, 0], halves[:, 1], positions
    return table[np.lexsort((table["position"], table["low"], table["high"]))]


class _Chunk:
    """Rows until the chunk is full."""

    def __init__(self) -> None:
        self.blocks: list[pa.Table] = []
        self.rows: list[Row] = []
        self.text_keys: list[bytes] = []
        self.text_positions: list[int] = []
        self.id_keys: list[bytes] = []
        self.bytes = 0
        self.reasons: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        position = len(self.id_keys)
        self.rows.append(row)
        self.bytes += len(row.texts[0])
        self.id_keys.append(hashlib.blake2b(row.id.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest())
        if row.reason is None:
            self.text_keys.append(dedup_key(row.texts[0]))
            self.text_positions.append(position)
        else:
            self.reasons[row.reason] += 1
        if len(self.rows) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self.rows, strict=True)) or [()] * 5
        texts = [texts[0] for texts in columns[1]]
        self.blocks.append(pa.table([columns[0], texts, *columns[2:5]], schema=CHUNK_SCHEMA))
        self.rows = []

    def write(self, outputs: Outputs, name: str) -> dict[str, Any]:
        """Write the files of the chunk; returns its facts."""
        self._flush()
        write_parquet(outputs.path(f"{name}.parquet"), CHUNK_SCHEMA, self.blocks)
        _save(outputs.path(f"{name}.texts.npy"), sorted_keys(self.text_keys, self.text_positions))
        _save(outputs.path(f"{name}.ids.npy"), sorted_keys(self.id_keys, list(range(len(self.id_keys)))))
        return {"name": name, "rows": len(self.id_keys), "usable": len(self.text_keys), "bytes": self.bytes}


def _save(path: str, array: NDArray[Any]) -> None:
    with open(path, "wb") as out:
        np.save(out, array, allow_pickle=False)


def run(step: Step, outputs: Outputs) -> dict[str, Any]:
    """Params: `spec` (a `CorpusSpec`), `name` of the file, `rows` and `bytes` a chunk; execution: `path`."""
    spec = CorpusSpec.model_validate(step.params["spec"])
    file = InputFile(path=step.execution["path"], name=step.params["name"])
    chunks: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    chunk = _Chunk()

    def close() -> None:
        chunks.append(chunk.write(outputs, f"{step.name}.{len(chunks):05d}"))
        reasons.update(chunk.reasons)

    for row in read_file(spec, file):
        if len(chunk.id_keys) >= step.params["rows"] or chunk.bytes >= step.params["bytes"]:
            close()
            chunk = _Chunk()
        chunk.add(row)
    if chunk.id_keys:
        close()
    return {"chunks": chunks, "reasons": dict(sorted(reasons.items()))}
