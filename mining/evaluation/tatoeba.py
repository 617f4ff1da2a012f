"""Similarity search in the manner of Tatoeba: is the nearest sentence of the other language the
translation?

The task of Artetxe and Schwenk 2019 as Wieting et al. 2022 report it (section 5.2): line-aligned
sentences, the nearest neighbour by cosine, the share of wrong ones in percent, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mining.corpus.dedup import dedup_key
from mining.devices import torch_threads
from mining.encoder.protocol import encode_checked
from mining.search.neighbours import Neighbours
from mining.search.shards import VectorShard, search_shards
from mining.search.vectors import exact_cosines

if TYPE_CHECKING:
    from mining.encoder import Encoder


@dataclass(frozen=True)
class Direction:
    """What one direction of the search found.

    `errors` counts the sentences whose nearest neighbour is wrong. `equal_text` counts those that
    are right only because the text found equals the right one on another line. `tied` counts the
    errors in which the right sentence has the same cosine and merely stands further down.
    """

    errors: int
    equal_text: int
    tied: int


@dataclass(frozen=True)
class TatoebaResult:
    """Outcome of `tatoeba_error` over `pairs` pairs: `forward` is source to target, `backward`
    target to source.

    `unencoded` counts the pairs of which a side cannot be encoded; they are errors in both
    directions.
    """

    pairs: int
    forward: Direction
    backward: Direction
    unencoded: int

    @property
    def forward_error(self) -> float:
        """Error rate from source to target in percent."""
        return 100 * self.forward.errors / self.pairs

    @property
    def backward_error(self) -> float:
        """Error rate from target to source in percent."""
        return 100 * self.backward.errors / self.pairs

    @property
    def error(self) -> float:
        """Mean of both error rates in percent."""
        return (self.forward_error + self.backward_error) / 2

    def to_dict(self) -> dict[str, Any]:
        """Plain data; error rates in percent with four decimals."""
        sides = {
            name: {
                "equal_text": side.equal_text,
                "error": round(100 * side.errors / self.pairs, 4),
                "errors": side.errors,
                "tied": side.tied,
            }
            for name, side in (("backward", self.backward), ("forward", self.forward))
        }
        return {**sides, "error": round(self.error, 4), "pairs": self.pairs, "unencoded": self.unencoded}


def tatoeba_error(
    encoder: Encoder,
    source_texts: Sequence[str],
    target_texts: Sequence[str],
    *,
    target_encoder: Encoder | None = None,
    threads: int = 0,
) -> TatoebaResult:
    """Error of the nearest neighbour by cosine among line-aligned sentences, in both directions.

    The search is exact; of equal cosines the sentence that stands first is taken. A neighbour whose
    text equals the right one (NFKC, white space folded) is right. A pair of which a side cannot be
    encoded is an error in both directions. `target_encoder` encodes the target side where a model
    keeps its languages apart; `threads` 0 uses every core. Raises ValueError when the sides are of
    unequal length or there is no pair.

    >>> from mining import load_encoder  # doctest: +SKIP
    >>> tatoeba_error(load_encoder("model"), ["Gute Nacht."], ["Good night."]).error  # doctest:
    +SKIP
    0.0
    """
    if len(source_texts) != len(target_texts):
        raise ValueError(f"{len(source_texts)} source texts but {len(target_texts)} target texts: they must be aligned")
    if not len(source_texts):
        raise ValueError("no pairs: an error rate needs at least one")
    source, source_valid = encode_checked(encoder, source_texts, threads)
    target, target_valid = encode_checked(target_encoder or encoder, target_texts, threads)
    shards = (
        VectorShard(0, source_valid, np.ascontiguousarray(source[source_valid])),
        VectorShard(0, target_valid, np.ascontiguousarray(target[target_valid])),
    )
    rows = np.arange(len(source_texts), dtype=np.int64)
    with torch_threads(threads):
        forward, backward = search_shards(*shards, 1)
        own = exact_cosines(source, target, rows, rows)
    usable = source_valid & target_valid
    return TatoebaResult(
        pairs=len(rows),
        forward=_judge(forward, _text_numbers(target_texts), own, usable),
        backward=_judge(backward, _text_numbers(source_texts), own, usable),
        unencoded=int((~usable).sum()),
    )


def _text_numbers(texts: Sequence[str]) -> NDArray[np.int64]:
    """(n,) int64: equal numbers for texts equal up to NFKC and white space."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(dedup_key(text), len(numbers)) for text in texts], dtype=np.int64)


def _judge(
    found: Neighbours, numbers: NDArray[np.int64], own: NDArray[np.float32], usable: NDArray[np.bool_]
) -> Direction:
    """Compare the nearest neighbour of each row with the row itself; `own` is the cosine of each
    pair."""
    nearest = found.ids[:, 0]
    rows = np.arange(len(nearest))
    exact = usable & (nearest == rows)
    equal = usable & ~exact & (numbers[nearest] == numbers)
    wrong = ~(exact | equal)
    tied = wrong & usable & (own == found.cosines[:, 0])
    return Direction(int(wrong.sum()), int(equal.sum()), int(tied.sum()))
