"""Scores of pairs that are given: the cosine of each, and its margin against two pools of
sentences.

The margin is that of mining (Artetxe and Schwenk 2019, section 3.1): the mean cosine of the k
nearest neighbours of the source in the target pool, and of the target in the source pool. Vectors
are rounded as the miner keeps them on disk, and pools of text are deduplicated as it does, so a
mined pair scored against its own corpora gets the scores it was mined with.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mining.checks import check_count
from mining.config.corpus import MAX_CHARS, BitextSpec, CorpusSpec
from mining.config.mine import MARGIN
from mining.config.score import ScoreConfig
from mining.config.search import K
from mining.corpus import Row, dedup_key, list_inputs, read_rows, row_blocks
from mining.devices import torch_threads
from mining.encoder import Encoder
from mining.encoder.load import load_encoders
from mining.encoder.protocol import encode_checked
from mining.encoder.vector_file import METADATA_KEY, read_vectors
from mining.errors import InputError, RunError, UsageError
from mining.io.atomic import check_place, refuse_input, replacing
from mining.io.parquet import write_parquet
from mining.io.tsv import write_tsv
from mining.margins import MARGINS
from mining.neighbour_scores import neighbour_means, pair_scores
from mining.schemas import DECIMALS, SCORES_SCHEMA, SIDES, Reason
from mining.search.exact import knn
from mining.search.vectors import exact_cosines, from_stored, to_stored
from mining.text_arrays import table_parts, text_array, whole

OUTPUT_SUFFIXES = (".tsv", ".jsonl", ".parquet")
BLOCK_ROWS = 4096
BLOCK_CHARS = 4_000_000
#: A reader cuts texts beyond its limit to previews; scoring keeps every text, so it asks for all
#: and judges itself.
_WHOLE_TEXT = 1 << 31
SCORED = "scored"


@dataclass(frozen=True)
class Pool:
    """Sentences of one side among which neighbours are looked up: `vectors` (n, d) float32 unit
    rows.

    `rows` counts the rows read, `unusable` those without a vector, `repeated` those equal to an
    earlier one.
    """

    name: str
    vectors: NDArray[np.float32]
    rows: int
    unusable: int
    repeated: int

    def check(self, k: int, side: str) -> None:
        """Raise UsageError when there are fewer than `k` sentences."""
        usable = len(self.vectors)
        if usable < k:
            mend = f"give k {usable} or less, or a larger pool" if usable else "give another pool"
            raise UsageError(
                f"{self.name}: k {k} is more than the {usable} distinct usable sentences of the {side} pool: {mend}"
            )


def _as_mined(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors rounded as the miner keeps them."""
    return from_stored(to_stored(vectors))


def pool_from_rows(rows: Iterable[Row], encoder: Encoder, name: str, threads: int = 0) -> Pool:
    """Encode the distinct usable texts of a corpus, in order."""
    seen: set[bytes] = set()
    parts = [np.empty((0, encoder.dim), dtype=np.float32)]
    total = unusable = repeated = 0
    for block in row_blocks(rows, BLOCK_ROWS, BLOCK_CHARS):
        texts = []
        for row in block:
            key = dedup_key(whole(row.texts[0])) if row.reason is None else None
            if key is None:
                unusable += 1
            elif key in seen:
                repeated += 1
            else:
                seen.add(key)
                texts.append(row.texts[0])
        with torch_threads(threads):
            vectors, valid = encode_checked(encoder, texts, threads)
            parts.append(_as_mined(vectors[valid]))
        unusable += len(texts) - len(parts[-1])
        total += len(block)
    return Pool(name, np.concatenate(parts), total, unusable, repeated)


def pool_from_vectors(path: str, encoder: Encoder) -> Pool:
    """Read a pool that `bitext encode` wrote; of rows with equal vectors one counts.

    Raises UsageError, naming both, when its dimension or its model is not that of `encoder`.
    """
    content = read_vectors(path)
    dim = content.vectors.shape[1]
    if dim != encoder.dim:
        raise UsageError(
            f"{path}: its vectors have dimension {dim} but the model has {encoder.dim}: encode the pool with "
            "this model and dim"
        )
    if content.model_hash != encoder.hash:
        raise UsageError(
            f"{path}: its vectors are of model {content.model_hash} but the model here is {encoder.hash}: "
            "encode the pool with this model"
        )
    stored = to_stored(content.vectors[content.valid])
    whole_rows = stored.view(np.dtype((np.void, stored.dtype.itemsize * dim))).reshape(len(stored))
    first = np.sort(np.unique(whole_rows, return_index=True)[1])
    unusable = len(content.valid) - len(stored)
    return Pool(path, from_stored(stored[first]), len(content.valid), unusable, len(stored) - len(first))


def is_vector_file(path: str) -> bool:
    """Whether a pool is a file of vectors, not of texts: ``.npy``, or Parquet that says so in its
    metadata."""
    if path.endswith(".npy"):
        return True
    if not path.endswith(".parquet") or not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            return METADATA_KEY in {**(file.schema_arrow.metadata or {}), **(file.metadata.metadata or {})}
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None


def read_pool(spec: CorpusSpec, encoder: Encoder, k: int, side: str, threads: int = 0) -> Pool:
    """A pool of texts or vectors; raises UsageError when it has fewer than `k` distinct usable
    sentences."""
    if len(spec.paths) == 1 and is_vector_file(spec.paths[0]):
        pool = pool_from_vectors(spec.paths[0], encoder)
    else:
        pool = pool_from_rows(read_rows(spec), encoder, ", ".join(spec.paths), threads)
    pool.check(k, side)
    return pool


class _Numbers(NamedTuple):
    """Columns of `SCORES_SCHEMA` for n pairs, (n,) each; None without pools."""

    cosine: NDArray[np.float32]
    source_mean: NDArray[np.float64] | None = None
    target_mean: NDArray[np.float64] | None = None
    margin: NDArray[np.float64] | None = None


@dataclass
class PairScorer:
    """Scores aligned pairs block by block, one row out for each row in, in order.

    `target_encoder` encodes the target side where the languages have separate parameters. `pools`
    are the source and the target pool, or None for the cosine alone. After the last block `tally`
    has the number of scored rows (``scored``) and of those left out by reason; `floored` counts the
    pairs without a defined margin (a ratio with a denominator near zero). Raises ValueError for a
    count below 1 and an unknown margin, UsageError for a pool of fewer than k sentences.
    """

    encoder: Encoder
    pools: tuple[Pool, Pool] | None = None
    k: int = K
    margin: str = MARGIN
    max_chars: int = MAX_CHARS
    threads: int = 0
    target_encoder: Encoder | None = None
    tally: Counter[str] = field(default_factory=Counter)
    floored: int = 0

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_count("max_chars", self.max_chars)
        MARGINS.check(self.margin)
        for pool, side in zip(self.pools or (), SIDES, strict=False):
            pool.check(self.k, side)

    def score(self, rows: Iterable[Row]) -> Iterator[pa.Table]:
        """Tables of `SCORES_SCHEMA`; numbers have six decimals."""
        for block in row_blocks(rows, BLOCK_ROWS, BLOCK_CHARS):
            with torch_threads(self.threads):
                table = self._score_block(block)
            yield table

    def _score_block(self, rows: list[Row]) -> pa.Table:
        texts = [(*row.texts, "", "")[:2] for row in rows]
        reasons = [row.reason or self._fault(pair) for row, pair in zip(rows, texts, strict=True)]
        tried = [i for i, reason in enumerate(reasons) if reason is None]
        encoders = self.encoder, self.target_encoder or self.encoder
        (source, source_valid), (target, target_valid) = (
            encode_checked(encoder, [texts[i][side] for i in tried], self.threads)
            for side, encoder in enumerate(encoders)
        )
        valid = source_valid & target_valid
        scored = np.zeros(len(rows), dtype=bool)
        for i, ok in zip(tried, valid.tolist(), strict=True):
            scored[i] = ok
            reasons[i] = None if ok else Reason.NO_PIECES
        numbers = self._numbers(_as_mined(source[valid]), _as_mined(target[valid]))
        self.tally.update(reason or SCORED for reason in reasons)
        columns = {
            "id": text_array([row.id for row in rows]),
            "source": text_array([pair[0] for pair in texts]),
            "target": text_array([pair[1] for pair in texts]),
            **{name: _spread(values, scored) for name, values in numbers._asdict().items()},
            "reason": pa.array(reasons, pa.string()),
        }
        return pa.concat_tables([part.cast(SCORES_SCHEMA) for part in table_parts(pa.table(columns))])

    def _fault(self, pair: tuple[str, ...]) -> str | None:
        if not all(text.strip() for text in pair):
            return Reason.BLANK
        return Reason.TOO_LONG if max(map(len, pair)) > self.max_chars else None

    def _numbers(self, source: NDArray[np.float32], target: NDArray[np.float32]) -> _Numbers:
        """Cosine, means and margin of the pairs of rows of two (n, d) float32 matrices of unit
        rows."""
        rows = np.arange(len(source))
        cosine = exact_cosines(source, target, rows, rows)
        if self.pools is None:
            return _Numbers(cosine)
        source_pool, target_pool = self.pools
        source_mean = neighbour_means(knn(source, target_pool.vectors, self.k).cosines)
        target_mean = neighbour_means(knn(target, source_pool.vectors, self.k).cosines)
        margin, undefined = pair_scores(cosine, source_mean, target_mean, self.margin, self.threads)
        self.floored += undefined
        return _Numbers(cosine, source_mean, target_mean, margin)


def _spread(values: NDArray[np.floating] | None, scored: NDArray[np.bool_]) -> pa.Array:
    """Values of the scored rows where these are, null elsewhere (and everywhere for None)."""
    if values is None:
        return pa.nulls(len(scored), pa.float64())
    spread = np.zeros(len(scored))
    spread[scored] = np.round(values.astype(np.float64), DECIMALS) + 0.0
    return pa.array(spread, pa.float64(), mask=~scored)


def check_output(path: str | Path) -> Path:
    """The output path; raises UsageError when its extension or its folder will not do."""
    path = Path(path)
    if path.suffix not in OUTPUT_SUFFIXES:
        raise UsageError(
            f"{path}: the name of a file of scores ends in {', '.join(OUTPUT_SUFFIXES)}: choose one of them"
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: folder {path.parent} does not exist: make it first")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        wrong = "is a folder" if path.is_dir() else f"the folder {path.parent} cannot be written"
        raise UsageError(f"{path}: {wrong}: name another output")
    check_place(path)
    return path


def write_scores(path: str | Path, tables: Iterable[pa.Table]) -> int:
    """Write `SCORES_SCHEMA` tables as TSV (under a line of names), JSON lines or Parquet; returns
    the rows."""
    path = check_output(path)
    if path.suffix == ".parquet":
        return write_parquet(path, SCORES_SCHEMA, tables)
    if path.suffix == ".tsv":
        return write_tsv(path, SCORES_SCHEMA, tables)
    rows = 0
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as out:
        for table in tables:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
            rows += len(table)
    return rows


def score_file(config: ScoreConfig) -> PairScorer:
    """Score a file of pairs into ``config.output``; returns the scorer with its tally.

    Raises UsageError for pools that do not fit model or k, InputError for an input without rows,
    RunError (after writing) when not one row could be scored.
    """
    output = check_output(config.output)
    specs = [spec for spec in (config.pairs, config.source_pool, config.target_pool) if spec is not None]
    refuse_input(output, (path for spec in specs for path in _input_paths(spec)))
    encoder, target_encoder = load_encoders(config, config.source_language, config.target_language)
    pools = None
    if config.source_pool is not None and config.target_pool is not None:
        pools = (
            read_pool(config.source_pool, encoder, config.k, "source", config.threads),
            read_pool(config.target_pool, target_encoder, config.k, "target", config.threads),
        )
    scorer = PairScorer(encoder, pools, config.k, config.margin, config.pairs.max_chars, config.threads, target_encoder)
    rows = read_rows(config.pairs.model_copy(update={"max_chars": _WHOLE_TEXT}))
    try:
        total = write_scores(output, scorer.score(_some(rows, ", ".join(config.pairs.paths))))
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from None
    if not scorer.tally[SCORED]:
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(scorer.tally.items()))
        name = ", ".join(config.pairs.paths)
        raise RunError(f"{name}: none of the {total} pairs could be scored ({reasons}): see {output}")
    return scorer


def _input_paths(spec: BitextSpec | CorpusSpec) -> list[str]:
    """The files of a spec; raises UsageError when one is missing."""
    if len(spec.paths) == 1 and spec.paths[0].endswith(".npy"):
        return spec.paths
    return [path for file in list_inputs(spec) for path in (file.path, file.target_path) if path is not None]


def _some(rows: Iterable[Row], name: str) -> Iterator[Row]:
    """The rows, or InputError when there is none."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InputError(f"{name}: holds no pairs: give a file with one pair a row")
