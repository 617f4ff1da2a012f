"""How much of their vocabulary the two languages of a bitext share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mining.encoder.tokens import Tokens
from mining.training.data.prepared import PreparedPairs

_BLOCK_PAIRS = 1 << 16


@dataclass(frozen=True)
class Overlap:
    """The units of one kind in the bitexts of one language pair.

    ``source_share`` is the share of the types of the source side that also occur on the target
    side: what Wieting et al. 2019, section 4.2, call SP overlap when the source is English (there
    with a segmentation learnt for each language by itself, here with the shared one).
    ``source_tokens_shared`` is the share of the tokens of the source side that are of such a type;
    the same for the target.
    """

    languages: str
    unit: str
    pairs: int
    source_types: int
    target_types: int
    shared_types: int
    source_share: float
    target_share: float
    source_tokens_shared: float
    target_tokens_shared: float


def piece_overlap(prepared: PreparedPairs) -> list[Overlap]:
    """The overlap of the two sides for each language pair (``all`` where no languages were given)
    and unit."""
    names = ["-".join(domain.languages) if domain.languages else "all" for domain in prepared.domains]
    pairs_of = dict.fromkeys(names, 0)
    for name, domain in zip(names, prepared.domains, strict=True):
        pairs_of[name] += domain.pairs
    languages = [name for name, pairs in pairs_of.items() if pairs]
    place = np.array([languages.index(name) if pairs_of[name] else 0 for name in names])
    return [
        _overlap(name, kind, pairs_of[name], source[number], target[number])
        for kind, unit, *sides in zip(
            prepared.kinds, prepared.tokenizers, prepared.source, prepared.target, strict=True
        )
        for source, target in [[_counts(side, place, prepared.domain, len(languages), unit.size) for side in sides]]
        for number, name in enumerate(languages)
    ]


def _counts(pieces: Tokens, place: np.ndarray, domain: np.ndarray, languages: int, size: int) -> np.ndarray:
    """(languages, size) int64: how often each unit occurs in the texts of each language pair."""
    counts = np.zeros(languages * size, np.int64)
    for start in range(0, len(domain), _BLOCK_PAIRS):
        offsets = np.asarray(pieces.offsets[start : start + _BLOCK_PAIRS + 1])
        owner = np.repeat(place[domain[start : start + _BLOCK_PAIRS]], np.diff(offsets))
        ids = np.asarray(pieces.ids[offsets[0] : offsets[-1]])
        counts += np.bincount(owner * size + ids, minlength=len(counts))
    return counts.reshape(languages, size)


def _overlap(name: str, unit: str, pairs: int, source: np.ndarray, target: np.ndarray) -> Overlap:
    shared = (source > 0) & (target > 0)
    types = [int((counts > 0).sum()) for counts in (source, target)]
    return Overlap(
        languages=name,
        unit=unit,
        pairs=pairs,
        source_types=types[0],
        target_types=types[1],
        shared_types=int(shared.sum()),
        source_share=float(shared.sum() / max(types[0], 1)),
        target_share=float(shared.sum() / max(types[1], 1)),
        source_tokens_shared=float(source[shared].sum() / max(source.sum(), 1)),
        target_tokens_shared=float(target[shared].sum() / max(target.sum(), 1)),
    )
