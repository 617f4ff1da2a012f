"""Encode shards: float16 unit vectors and their validity, block by block."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from apache_beam.utils.shared import Shared
from numpy.typing import NDArray

from mining.api import check_k
from mining.config.mine import EncodeSettings, MineConfig
from mining.encoder import SentenceEncoder, load_encoder
from mining.errors import RunError
from mining.search.vectors import STORED, to_stored
from pipelines.arrays import write_blocks
from pipelines.engine import Context
from pipelines.records import NOT_IN_KEY, Artefact, Listing, Sides
from pipelines.steps import Outputs, Step, stage
from pipelines.transforms.duplicates import Corpus, ShardReport

#: One model a process, whatever the number of threads; the tag is the model's hash.
_MODEL = Shared()
_BLOCK = 32_768


@dataclass(frozen=True)
class EncodeParams:
    """The hash that names the `model`, the rows of the shard; the folder of the model (None: the
    one that ships with the package), and how it is loaded."""

    model: str
    rows: int
    device: str
    side: str = field(metadata=NOT_IN_KEY)
    folder: str | None = field(metadata=NOT_IN_KEY)
    settings: EncodeSettings = field(metadata=NOT_IN_KEY)
    threads: int = field(metadata=NOT_IN_KEY)


@dataclass(frozen=True)
class EncodeReport:
    """Vectors (rows, dim), which of them are `valid` (rows,), and the number of these."""

    vectors: Artefact
    valid: Artefact
    rows: int
    dim: int
    model: str
    valid_rows: int


class _Model:
    """`Shared` holds weak references, and not every encoder can be referred to weakly.

    Raises RunError when what was loaded is not the model that the run began with; `Shared` keeps no
    such model.
    """

    def __init__(self, params: EncodeParams) -> None:
        options = params.settings.options(params.side)
        self.encoder: SentenceEncoder = load_encoder(params.folder, params.device, **options)
        if self.encoder.hash != params.model:
            name = params.folder or "the bundled model"
            raise RunError(
                f"{name}: the model has changed since this run began ({self.encoder.hash}): run the command again"
            )


@stage("encode", "numba", "pyarrow", "safetensors", "sentencepiece", "torch", "unicode", accelerated=True)
def encode(inputs: Artefact, params: EncodeParams, outputs: Outputs) -> EncodeReport:
    """Encode one shard."""
    model = _MODEL.acquire(lambda: _Model(params), tag=f"{params.model} {params.device}").encoder
    valid = np.zeros(params.rows, dtype=bool)

    def blocks() -> Iterator[NDArray[np.float16]]:
        start = 0
        with pq.ParquetFile(inputs.path) as file:
            for batch in file.iter_batches(_BLOCK, columns=["text"]):
                block, ok = model.encode(batch.column(0), params.threads)
                valid[start : start + len(block)] = ok
                start += len(block)
                outputs.progress(start / params.rows)
                yield to_stored(block)

    name = f"{outputs.name}.vectors.npy"
    with open(outputs.path(name), "wb") as out:
        write_blocks(out, STORED, (params.rows, model.dim), blocks())
    if model.statistics is not None:
        # Of this worker so far; what a table of words holds depends on the shards before, so it is
        # not in the report.
        logging.getLogger(__name__).info("%s: %s", outputs.name, model.statistics)
    return EncodeReport(
        vectors=outputs.artefact(name),
        valid=outputs.save(f"{outputs.name}.valid.npy", valid),
        rows=params.rows,
        dim=model.dim,
        model=model.hash,
        valid_rows=int(valid.sum()),
    )


@dataclass(frozen=True)
class Models:
    """The hash that names the encoder of each side, and the length of a vector."""

    hashes: Sides[str]
    dim: int


def load_models(config: MineConfig) -> Models:
    """The models of a run. They are loaded on the CPU: only the workers need to have the device."""
    options = Sides("source", "target").map(config.encode.options)
    encoder = load_encoder(config.model, **options.source)
    source, dim = encoder.hash, encoder.dim
    del encoder
    same = options.target == options.source
    return Models(Sides(source, source if same else load_encoder(config.model, **options.target).hash), dim)


@dataclass(frozen=True)
class VectorLists:
    """The files of all shards of a side: vectors, and which of them are valid."""

    vectors: Listing
    valid: Listing


@dataclass(frozen=True)
class EncodedSide:
    """One side with the vectors of its shards, of length `dim`."""

    corpus: Corpus
    shards: list[EncodeReport]
    dim: int

    @property
    def valid_rows(self) -> int:
        """Rows with a vector."""
        return sum(shard.valid_rows for shard in self.shards)

    def valid(self, ctx: Context) -> Listing:
        """Which rows have a vector, in the files of all shards."""
        return ctx.listing((shard.valid for shard in self.shards), self.corpus.sizes)

    def lists(self, ctx: Context) -> VectorLists:
        """The files of all shards, for steps that read them all."""
        vectors = ctx.listing((shard.vectors for shard in self.shards), self.corpus.sizes)
        return VectorLists(vectors, self.valid(ctx))

    def check_model(self, model: str, dim: int) -> None:
        """Raise RunError when a shard is of another model: such shards must never meet."""
        for shard in self.shards:
            if (shard.model, shard.dim) != (model, dim):
                raise RunError(
                    f"a shard of the {self.corpus.side} side was encoded by the model {shard.model} with {shard.dim} "
                    f"dimensions, and the run began with {model} and {dim}: run the command again"
                )


def plan_encode(ctx: Context, corpus: Corpus, model: str) -> list[Step[EncodeReport]]:
    """One step a shard."""
    settings = ctx.config.encode
    folder = None if ctx.config.model is None else str(Path(ctx.config.model).absolute())

    def params(shard: ShardReport) -> EncodeParams:
        return EncodeParams(model, shard.rows, settings.device, corpus.side, folder, settings, ctx.threads)

    return ctx.numbered(encode, corpus.side, ((shard.table, params(shard)) for shard in corpus.shards))


def encode_sides(ctx: Context, corpora: Sides[Corpus], models: Models) -> Sides[EncodedSide]:
    """Encode all shards. Raises RunError when they are not of the models that the run began with,
    UsageError when there are fewer vectors than the neighbours that are asked for."""
    reports = ctx.run_sides(corpora.with_other(models.hashes), lambda item: plan_encode(ctx, *item))
    sides = corpora.with_other(reports).map(lambda item: EncodedSide(*item, models.dim))
    for side, model in sides.with_other(models.hashes):
        side.check_model(model, models.dim)
    check_k(ctx.config.search.k, sides.source.valid_rows, sides.target.valid_rows)
    return sides
