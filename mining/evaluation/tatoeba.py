"""Similarity search in the manner of Tatoeba: is the nearest sentence of the other language the
translation? And the test sets: files named as LASER names them, folders of these, or any bitext.

The task of Artetxe and Schwenk 2019 as Wieting et al. 2022 report it (section 5.2): line-aligned
sentences, the nearest neighbour by cosine, the share of wrong ones in percent, in both directions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mining.config.base import validate
from mining.config.corpus import BitextSpec
from mining.corpus import list_inputs, read_rows
from mining.corpus.compression import without_compression
from mining.corpus.dedup import dedup_key
from mining.corpus.formats import format_of
from mining.devices import torch_threads
from mining.encoder.protocol import encode_checked
from mining.errors import InputError, UsageError
from mining.schemas import Reason
from mining.search.exact import search_shards
from mining.search.topk import Neighbours
from mining.search.vectors import VectorShard, exact_cosines

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

    def to_dict(self) -> dict[str, object]:
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
    keeps its languages apart. Raises ValueError when the sides are of unequal length or empty.

    >>> from mining import load_encoder
    >>> from mining.evaluation import tatoeba_error
    >>> tatoeba_error(load_encoder(), ["Gute Nacht.", "Ja."], ["Good night.", "Yes."]).error
    0.0
    """
    if len(source_texts) != len(target_texts):
        raise ValueError(f"{len(source_texts)} source texts but {len(target_texts)} target texts: they must be aligned")
    if not len(source_texts):
        raise ValueError("no pairs: an error rate needs at least one")
    source, source_valid = encode_checked(encoder, source_texts, threads)
    target, target_valid = encode_checked(target_encoder or encoder, target_texts, threads)
    rows = np.arange(len(source_texts), dtype=np.int64)
    with torch_threads(threads):
        forward, backward = search_shards(_shard(source, source_valid), _shard(target, target_valid), 1)
        own = exact_cosines(source, target, rows, rows)
    usable = source_valid & target_valid
    return TatoebaResult(
        pairs=len(rows),
        forward=_judge(forward, _text_numbers(target_texts), own, usable),
        backward=_judge(backward, _text_numbers(source_texts), own, usable),
        unencoded=int((~usable).sum()),
    )


def _shard(vectors: NDArray[np.float32], valid: NDArray[np.bool_]) -> VectorShard:
    return VectorShard(0, valid, np.ascontiguousarray(vectors[valid]))


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


#: ``tatoeba.deu-eng.deu``: both languages, then the one of this file.
_NAME = re.compile(r"(?P<stem>(?:.*\.)?(?P<first>[^.-]+)-(?P<second>[^.-]+))\.(?P<side>[^.-]+)")


@dataclass(frozen=True)
class AlignedSet:
    """A test set: `name`, and `source` and `target`, texts aligned by their position; "" for one
    that cannot be used."""

    name: str
    source: list[str]
    target: list[str]


class _Half(NamedTuple):
    """One of the two files of a set: `key` tells the set, `position` 0 is the source side."""

    path: str
    key: tuple[str, str]
    position: int
    label: str


def _half(path: str) -> _Half | None:
    """What a file is in its set, by its name, None for another name."""
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(without_compression(name))
    if match is None or match["side"] not in (match["first"], match["second"]) or match["first"] == match["second"]:
        return None
    label = f"{match['first']}-{match['second']}"
    return _Half(path, (folder, match["stem"]), int(match["side"] == match["second"]), label)


def _listing(folder: str) -> list[str]:
    try:
        return sorted(os.path.join(folder or os.curdir, name) for name in os.listdir(folder or os.curdir))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None


def _partner(half: _Half) -> _Half:
    """The other file of the set; raises UsageError when it is not there."""
    folder, stem = half.key
    for path in _listing(folder):
        other = _half(path)
        if other is not None and other.key[1] == stem and other.position != half.position:
            return other._replace(key=half.key, path=os.path.join(folder, os.path.basename(path)))
    missing = f"{stem}.{half.label.split('-')[1 - half.position]}"
    raise UsageError(f"{half.path}: its other side, {os.path.join(folder, missing)}, is not there: put it beside")


def _named_sets(halves: Sequence[_Half]) -> dict[str, list[str]]:
    """The paths of each set by name: the pair of languages, or the whole stem where that would say
    too little."""
    sets: dict[tuple[str, str], list[str]] = {}
    labels: dict[tuple[str, str], str] = {}
    for half in halves:
        if half.key not in sets:
            other = _partner(half)
            sets[half.key] = [side.path for side in sorted((half, other), key=lambda side: side.position)]
            labels[half.key] = half.label
    repeated = len(set(labels.values())) < len(labels)
    return {os.path.join(*key) if repeated else labels[key]: paths for key, paths in sets.items()}


def find_aligned(paths: Sequence[str], options: Mapping[str, object] | None = None) -> dict[str, BitextSpec]:
    """The test sets meant by `paths`, by name.

    A folder stands for all sets in it and a file of a set for the whole set, if they are named
    ``NAME.AAA-BBB.{AAA,BBB}``. All other files are bitexts, read by `options` (keys of
    `BitextSpec`): two plain text files are one set, a file of any other format is one by itself.
    With a `format` or `columns` in `options` names play no part. Raises UsageError when a path
    names nothing of this kind or two sets have one name.
    """
    options = {key: value for key, value in (options or {}).items() if value is not None}
    halves: list[_Half] = []
    others: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            found = [half for half in map(_half, _listing(path)) if half is not None]
            if not found:
                raise UsageError(f"{path}: holds no files named like tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
            halves += found
            continue
        half = _half(path) if not {"format", "columns"} & set(options) and os.path.isfile(path) else None
        if half is None:
            others.append(path)
        else:
            halves.append(half)
    sets = {
        name: validate(BitextSpec, {"path": pair, "format": "text"}, name) for name, pair in _named_sets(halves).items()
    }
    for name, spec in _bitexts(others, options):
        if name in sets:
            raise UsageError(f"{name}: two of the sets have this name: evaluate them one by one")
        sets[name] = spec
    return sets


def _bitexts(paths: Sequence[str], options: dict[str, object]) -> list[tuple[str, BitextSpec]]:
    specs: list[tuple[str, BitextSpec]] = []
    plain: list[str] = []
    for path in paths:
        spec = validate(BitextSpec, {"path": path, **options}, path)
        if format_of(spec, path).aligned:
            plain.append(path)
        else:
            list_inputs(spec)
            specs.append((os.path.basename(path), spec))
    if plain:
        spec = validate(BitextSpec, {"path": plain, **options}, ", ".join(plain))
        list_inputs(spec)
        specs.append((os.path.basename(plain[0]), spec))
    return specs


def read_aligned(name: str, spec: BitextSpec) -> AlignedSet:
    """Read a test set whole; a row that cannot be used stays, empty.

    Raises InputError for faulty content (unequal numbers of lines, invalid UTF-8, a bad row) and
    when there is no pair.
    """
    source, target = [], []
    for row in read_rows(spec):
        # Of a row with one blank side the other one still is a sentence that can be found.
        pair = row.texts if row.reason in (None, Reason.BLANK) else ("", "")
        source.append(pair[0] if pair[0].strip() else "")
        target.append(pair[1] if pair[1].strip() else "")
    if not source:
        raise InputError(f"{', '.join(spec.paths)}: holds no pairs: give files with one sentence a line")
    return AlignedSet(name, source, target)
