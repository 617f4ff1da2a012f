"""Negatives inside a mega-batch: the hardest, random ones, or both; and the texts that must not be
taken for wrong."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch

from mining.training.hardest import NO_NEGATIVE, Cells, hardest

Kind = Literal["max", "mix", "random"]
Pool = Literal["bilingual", "monolingual"]

_HARDEST_SHARE = 0.5
"""Wieting's MIX: hardest with probability one half."""
_STREAM = 1 << 61
"""Keeps these random numbers apart from those of the epochs and of the steps."""
_DRAWS = 8
"""Random draws before the allowed sentences of a text are counted out."""


class Negatives(NamedTuple):
    """Chosen rows of a mega-batch of n pairs: 0..n-1 are its sources, n..2n-1 its targets, -1 is no
    negative."""

    of_source: np.ndarray
    """(n, k) int64"""
    of_target: np.ndarray
    """(n, k) int64"""

    def blocks(self, pairs: slice) -> np.ndarray:
        """Rows of the negatives of some pairs, (2, k, b) int64: in the order in which an objective
        takes vectors."""
        return np.stack([side[pairs].T for side in self])


class EqualTexts:
    """Which pairs of a mega-batch share a text, so that a sentence of one is no wrong translation
    in the other.

    `source_groups` and `target_groups` (n,) int64 give equal numbers to equal texts, whichever side
    they stand on. A relation of pairs serves both directions and both sides: what is paired with an
    equal text is left out like the equal text itself.
    """

    def __init__(self, source_groups: np.ndarray, target_groups: np.ndarray) -> None:
        self.n = len(source_groups)
        self.source, self.target = np.asarray(source_groups), np.asarray(target_groups)
        texts = np.concatenate((self.source, self.target))
        self._order = np.argsort(texts, kind="stable")
        starts = np.flatnonzero(np.diff(texts[self._order], prepend=texts[self._order[:1]] - 1))
        sizes = np.diff(starts, append=len(texts))
        self._start, self._size = np.empty((2, len(texts)), np.int64)
        self._start[self._order] = np.repeat(starts, sizes)
        self._size[self._order] = np.repeat(sizes, sizes)

    @classmethod
    def none(cls, n: int) -> EqualTexts:
        """Every pair related only to itself, whatever its texts: the published behaviour."""
        return cls(np.arange(n), np.arange(n, 2 * n))

    def cells(self, start: int, stop: int) -> Cells:
        """Related pairs (i, j) with ``start <= i < stop``: row and column numbers, every cell at
        least once.

        The diagonal is included. Asked for in blocks, so that a text repeated thousands of times
        bounds the memory.
        """
        own = np.arange(start, stop)
        texts = np.concatenate((own, own + self.n))
        texts = texts[self._size[texts] > 1]
        sizes = self._size[texts]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self._start[texts] - (ends - sizes), sizes)
        rows, columns = np.repeat(texts, sizes), self._order[places]
        other = rows != columns
        rows, columns = rows[other] % max(1, self.n), columns[other] % max(1, self.n)
        return np.concatenate((own, rows)), np.concatenate((own, columns))

    def related(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether the pairs `one` and `other` (pair numbers of any shape that broadcasts) are
        related; bool."""
        source, target = self.source, self.target
        straight = (source[one] == source[other]) | (target[one] == target[other])
        return straight | (source[one] == target[other]) | (target[one] == source[other])


def false_negatives(source_groups: np.ndarray, target_groups: np.ndarray) -> Cells:
    """Cells (i, j) in which target j is no wrong translation of source i: the pairs i and j share a
    text.

    The groups as in EqualTexts. Returns row and column numbers, the diagonal included, each cell at
    least once. The relation is symmetric, so it serves both directions.
    """
    return EqualTexts(source_groups, target_groups).cells(0, len(source_groups))


def choose_negatives(
    units: tuple[torch.Tensor, torch.Tensor] | None,
    equal: EqualTexts,
    *,
    k: int = 1,
    kind: Kind = "max",
    pool: Pool = "bilingual",
    seed: int = 0,
    mega_batch: int = 0,
) -> Negatives:
    """Choose k negatives for each source and each target inside a mega-batch.

    `units`: unit rows of sources and targets, each (n, dim), as the model is now; None will do for
    ``random``. `equal`: the pairs to be kept apart; ``EqualTexts.none(n)`` masks only the own pair,
    as the published code does.

    `kind` ``max`` takes the k most similar, the most similar first; ``random`` draws k
    independently and evenly, so one may come twice; ``mix`` tosses a coin for each place: the
    hardest for that place, or a random one. `pool` ``bilingual`` offers the other side,
    ``monolingual`` both sides. -1 stands where nothing is allowed; a pair alone in its mega-batch
    has no negative (the published code would take its own translation).

    Random numbers come from Philox with the key (seed, `mega_batch`), so that a run taken up again
    repeats them. Wieting et al. 2019, section 2 (negative sampling); MAX and MIX: Wieting 2020,
    section 3.1.3.1, where the coin is tossed per example.
    """
    monolingual = pool == "monolingual"
    if kind == "random":
        return Negatives(*_draw(equal, k, monolingual, _generator(seed, mega_batch)))
    if units is None:
        raise ValueError(f"negatives of the kind {kind!r} need the vectors of the mega-batch")
    best = hardest(*units, equal.cells, k, monolingual=monolingual)
    if kind == "max":
        return Negatives(*best)
    chance = _generator(seed, mega_batch)
    drawn = _draw(equal, k, monolingual, chance)
    heads = chance.random((2, equal.n, k)) < _HARDEST_SHARE
    # Places beyond the allowed sentences have no hardest: they take the random one.
    return Negatives(
        *(
            np.where(coin & (one != NO_NEGATIVE), one, other)
            for coin, one, other in zip(heads, best, drawn, strict=True)
        )
    )


def _generator(seed: int, mega_batch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, _STREAM + mega_batch]))


def _draw(equal: EqualTexts, k: int, monolingual: bool, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random allowed rows, (n, k) for the sources and for the targets."""
    n = equal.n
    own = np.broadcast_to(np.arange(n)[:, None], (2, n, k)).reshape(-1)
    pairs = np.full(own.shape, NO_NEGATIVE, np.int64)
    open_places = np.arange(len(own)) if n > 1 else np.zeros(0, np.int64)
    for _ in range(_DRAWS):
        if not len(open_places):
            break
        drawn = chance.integers(0, n - 1, len(open_places))
        drawn += drawn >= own[open_places]
        pairs[open_places] = drawn
        open_places = open_places[equal.related(own[open_places], drawn)]
    for pair in np.unique(own[open_places]):
        allowed = np.flatnonzero(~equal.related(pair, np.arange(n)))
        left = open_places[own[open_places] == pair]
        pairs[left] = chance.choice(allowed, len(left)) if len(allowed) else NO_NEGATIVE
    places = pairs.reshape(2, n, k)
    in_target = chance.random(places.shape) < 0.5 if monolingual else np.array([True, False])[:, None, None]
    rows = np.where(places == NO_NEGATIVE, NO_NEGATIVE, places + n * in_target)
    return rows[0], rows[1]
