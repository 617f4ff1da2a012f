"""Second pass: the spooled texts as ids of the units, in flat arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mining.config.data import DataConfig
from mining.encoder.tokens import Tokens
from mining.io.arrays import GrowingArray, write_array
from mining.schemas import SIDES, Reason
from mining.training.data.prepared import DOMAIN, GROUPS, IDS, OFFSETS, array_name
from mining.training.data.read import Report, Spool

if TYPE_CHECKING:
    from mining.encoder.tokenizers import Tokenizer

_CUT_KINDS = ("pieces", "words")
"""Units of which a sentence has at most ``max_pieces``; n-grams are several times as many as
words."""


class Written(NamedTuple):
    """What became of the pairs."""

    kept: np.ndarray
    """(n,) bool over the spooled pairs"""
    truncated: int
    """sentences cut"""


def write_ids(
    config: DataConfig,
    spool: Spool,
    keep: np.ndarray,
    units: Sequence[Tokenizer],
    folder: Path,
    report: Report,
    threads: int,
) -> tuple[Written, list[Counter[str]]]:
    """Write the arrays of the pairs of `keep`, (n,) bool; returns what stayed, and for each domain
    what was dropped."""
    rows = np.flatnonzero(keep)
    kept = np.zeros(len(spool), bool)
    dropped: list[Counter[str]] = [Counter() for _ in spool.domains]
    done = truncated = 0
    with ExitStack() as stack:
        sinks = [[_Sink(folder, unit.kind, side, stack) for side in SIDES] for unit in units]
        for texts in spool.batches(keep):
            block = rows[done : done + len(texts[0])]
            done += len(block)
            sides = [_both_sides(unit, texts, threads) for unit in units]
            stay = _fitting(config, sides, spool.domain[block], dropped)
            kept[block[stay]] = True
            for unit, pair, unit_sinks in zip(units, sides, sinks, strict=True):
                for pieces, sink in zip(pair, unit_sinks, strict=True):
                    taken = pieces if len(stay) == len(block) else pieces.take(stay)
                    if unit.kind in _CUT_KINDS and (long := int((taken.lengths > config.max_pieces).sum())):
                        truncated += long
                        taken = taken.truncate(config.max_pieces)
                    sink.append(taken)
            report("pieces", done)
    return Written(kept, truncated), dropped


def write_labels(spool: Spool, kept: np.ndarray, folder: Path) -> None:
    """Write groups and domains of the pairs of `kept`, (n,) bool."""
    # One numbering for both sides: a sentence may come on either, above all in paraphrases.
    _, groups = np.unique(spool.keys[kept], return_inverse=True)
    groups = groups.reshape(-1, 2).astype(np.int64)
    for side, name in enumerate(SIDES):
        write_array(folder / array_name(GROUPS, name), groups[:, side])
    write_array(folder / array_name(DOMAIN), spool.domain[kept])


class _Sink:
    """Ids and offsets of one unit and side."""

    def __init__(self, folder: Path, kind: str, side: str, stack: ExitStack) -> None:
        self._ids = stack.enter_context(GrowingArray(folder / array_name(IDS, side, kind), "int32"))
        self._offsets = stack.enter_context(GrowingArray(folder / array_name(OFFSETS, side, kind), "int64"))
        self._offsets.append(np.zeros(1, np.int64))
        self._end = 0

    def append(self, pieces: Tokens) -> None:
        self._ids.append(pieces.ids)
        self._offsets.append(pieces.offsets[1:] + self._end)
        self._end += len(pieces.ids)


def _both_sides(unit: Tokenizer, texts: tuple[list[str], list[str]], threads: int) -> tuple[Tokens, Tokens]:
    """The ids of both sides, made in one call, which the threads share better."""
    source, target = texts
    both = unit([*source, *target], threads)
    cut = int(both.offsets[len(source)])
    return (
        Tokens(both.ids[:cut], both.offsets[: len(source) + 1]),
        Tokens(both.ids[cut:], both.offsets[len(source) :] - cut),
    )


def _fitting(
    config: DataConfig, sides: list[tuple[Tokens, Tokens]], domain: np.ndarray, dropped: list[Counter[str]]
) -> np.ndarray:
    """The places of the pairs that have ids in every unit, and enough in the first; the others are
    counted."""
    shortest = np.minimum.reduce([pieces.lengths for pair in sides for pieces in pair])
    first = np.minimum(*(pieces.lengths for pieces in sides[0]))
    for reason, out in (
        (Reason.NO_UNITS, shortest == 0),
        (Reason.TOO_FEW_PIECES, (shortest > 0) & (first < config.min_pieces)),
    ):
        for number, pairs in Counter(domain[out].tolist()).items():
            dropped[number][reason] += pairs
    return np.flatnonzero((shortest > 0) & (first >= config.min_pieces))
