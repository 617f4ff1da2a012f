"""A whole corpus to a vector file, block by block: memory does not grow with the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mining.config.encode import EncodeConfig
from mining.corpus import list_inputs, read_corpus
from mining.corpus.rows import table_blocks
from mining.encoder.load import load_encoder
from mining.encoder.protocol import Encoder
from mining.encoder.vector_file import Block, Written, check_target, write_vectors
from mining.encoder.word_cache import WordStatistics
from mining.errors import InputError, UsageError
from mining.schemas import Reason

BLOCK_ROWS = 8192
BLOCK_BYTES = 8_000_000
"""A block of rows ends at so many bytes of text even when it has few rows."""


class Encoded(NamedTuple):
    """What was written, and why some rows are invalid."""

    written: Written
    reasons: dict[str, int]
    replaced: int
    """rows with bytes that were no UTF-8"""
    words: WordStatistics | None
    """how often a word had been met before; None for a model that is not applied word by word"""


def encode_corpus(config: EncodeConfig, advance: Callable[[int], None] | None = None) -> Encoded:
    """Encode every row of the input, in order, into one row of the vector file ``config.out``.

    A row that cannot be used (blank, too long, without pieces) is a zero row marked invalid.
    `advance` is told the rows of each block. Raises UsageError for a faulty model, input or target
    name, InputError when no row can be encoded; no file is left then.
    """
    target = Path(config.out)
    if target.resolve() in {Path(file.path).resolve() for file in list_inputs(config.input)}:
        raise UsageError(f"{target}: is the input as well: name another output")
    check_target(target, config.dtype)
    encoder = load_encoder(
        config.model,
        config.device,
        dim=config.dim,
        dtype=config.table_dtype,
        language=config.language,
        word_memory=config.word_memory << 20,
    )
    tally = _Tally()
    blocks = _encoded(encoder, read_corpus(config.input), config.threads, tally)
    written = write_vectors(
        target,
        _watched(blocks, config, tally, advance),
        dim=encoder.dim,
        model_hash=encoder.hash,
        dtype=config.dtype,
    )
    return Encoded(written, dict(sorted(tally.reasons.items())), tally.replaced, encoder.statistics)


@dataclass
class _Tally:
    reasons: Counter[str] = field(default_factory=Counter)
    replaced: int = 0


def _encoded(encoder: Encoder, tables: Iterable[pa.Table], threads: int, tally: _Tally) -> Iterator[Block]:
    for table in table_blocks(tables, BLOCK_ROWS, BLOCK_BYTES):
        block = table.combine_chunks()
        texts, reasons = block.column("text").chunk(0), block.column("reason").chunk(0)
        vectors, valid = encoder.encode(pc.if_else(reasons.is_null(), texts, ""), threads)
        tally.reasons.update(reasons.fill_null(Reason.NO_PIECES).filter(pa.array(~valid)).to_pylist())
        tally.replaced += block.column("replaced").to_numpy().sum()
        yield block.column("id").chunk(0), vectors, valid


def _watched(
    blocks: Iterable[Block], config: EncodeConfig, tally: _Tally, advance: Callable[[int], None] | None
) -> Iterator[Block]:
    """Pass the blocks on; an input without a single usable row is an error before the file gets its
    name."""
    rows = usable = 0
    for block in blocks:
        rows += len(block[0])
        usable += int(block[2].sum())
        yield block
        if advance is not None:
            advance(len(block[0]))
    name = ", ".join(config.input.paths)
    if not rows:
        raise InputError(f"{name}: not a single row in it, nothing to encode")
    if not usable:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.reasons.items()))
        raise InputError(f"{name}: none of its {rows} rows can be encoded ({why}); check format, columns and text")
