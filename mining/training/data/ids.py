"""Second pass: the spooled texts as ids of their tokens, in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mining.config.data import DataConfig
from mining.encoder.tokenizers import Tokenizer
from mining.encoder.tokens import Tokens
from mining.schemas import Reason
from mining.training.data.prepared import Ledger, PairWriter, SideTokens
from mining.training.data.read import Report, Spool


def write_ids(
    config: DataConfig,
    spool: Spool,
    keep: np.ndarray,
    tokenizers: Sequence[Tokenizer],
    writer: PairWriter,
    ledger: Ledger,
    report: Report,
    threads: int,
) -> tuple[np.ndarray, int]:
    """Write the tokens of the pairs of `keep`, (n,) bool; returns which of them stayed, (n,) bool,
    and how many sentences were cut. What did not stay is counted in `ledger`."""
    rows = np.flatnonzero(keep)
    kept = np.zeros(len(spool), bool)
    done = truncated = 0
    for texts in spool.batches(keep):
        batch = rows[done : done + len(texts[0])]
        done += len(batch)
        tokens = [_both_sides(tokenizer, texts, threads) for tokenizer in tokenizers]
        stay = _fitting(config, tokens, spool.domain[batch], ledger)
        kept[batch[stay]] = True
        for tokenizer, sides in zip(tokenizers, tokens, strict=True):
            source, target = sides if len(stay) == len(batch) else (side.take(stay) for side in sides)
            if tokenizer.cut_in_training:
                truncated += sum(int((side.lengths > config.max_pieces).sum()) for side in (source, target))
                source, target = (side.truncate(config.max_pieces) for side in (source, target))
            writer.append(tokenizer.kind, (source, target))
        report("pieces", done)
    return kept, truncated


def _both_sides(tokenizer: Tokenizer, texts: tuple[list[str], list[str]], threads: int) -> SideTokens:
    """The ids of both sides, made in one call, which the threads share better."""
    source, target = texts
    both = tokenizer([*source, *target], threads)
    cut = int(both.offsets[len(source)])
    return (
        Tokens(both.ids[:cut], both.offsets[: len(source) + 1]),
        Tokens(both.ids[cut:], both.offsets[len(source) :] - cut),
    )


def _fitting(config: DataConfig, tokens: Sequence[SideTokens], domain: np.ndarray, ledger: Ledger) -> np.ndarray:
    """The indices of the pairs that have ids of every kind, and enough of the first; the others are
    counted."""
    shortest = np.minimum.reduce([side.lengths for sides in tokens for side in sides])
    first = np.minimum(*(side.lengths for side in tokens[0]))
    ledger.drop(Reason.NO_UNITS, domain[shortest == 0])
    ledger.drop(Reason.TOO_FEW_PIECES, domain[(shortest > 0) & (first < config.min_pieces)])
    return np.flatnonzero((shortest > 0) & (first >= config.min_pieces))
