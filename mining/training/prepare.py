"""From a bitext to piece ids on disk: what the trainer reads again and again, memory-mapped."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from mining.corpus import BitextSpec, Row, list_inputs, read_rows
from mining.encoder.model_folder import PIECES_FILE, replace_file
from mining.encoder.pieces import Pieces, PieceTokenizer
from mining.errors import InputError
from mining.training.config import TrainConfig
from mining.training.vocabulary import sample_sentences, train_vocabulary

BLOCK_PAIRS = 8192
SIDES = ("source", "target")
_PREPARED_FILE = "prepared.json"


@dataclass(frozen=True)
class PairPieces:
    """The bitext as piece ids: both sides of ``n`` pairs, and numbers that are equal for equal piece sequences."""

    source: Pieces
    target: Pieces
    source_groups: np.ndarray
    """(n,) int64"""
    target_groups: np.ndarray
    """(n,) int64"""
    model: bytes
    """the sentencepiece model"""
    vocabulary: int
    """its number of pieces, the unknown piece included"""
    dropped: dict[str, int]
    """pairs left out, by reason"""
    truncated: int
    """sentences cut at ``max_pieces``"""

    def __len__(self) -> int:
        return len(self.source_groups)


class GrowingArray:
    """A one-dimensional ``.npy`` file that grows by blocks and is whole once closed."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._file = path.open("wb")
        self._dtype = np.dtype(dtype)
        self._length = 0
        self._header()

    def append(self, values: np.ndarray) -> None:
        """Add `values` at the end."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._length += len(values)

    def _header(self) -> None:
        # numpy pads the header so that the length may grow in place.
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._length,)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._header()
        self._file.close()


def prepare(config: TrainConfig, folder: Path, report: Callable[[str, int], None]) -> PairPieces:
    """Learn the vocabulary and turn the bitext into piece ids under `folder`, or take up what is already there.

    `report` is told the stage and the pairs done. Raises InputError when no pair can be used.
    """
    if not (folder / PIECES_FILE).is_file():
        report("vocabulary", 0)
        rows = read_rows(config.bitext)
        sentences = sample_sentences(rows, config.vocabulary_sentences, config.seed)
        if not sentences:
            raise InputError(f"{_names(config.bitext)}: no pair of sentences in it to train on")
        model = train_vocabulary(
            sentences, config.vocabulary, character_coverage=config.character_coverage, lowercase=config.lowercase
        )
        del sentences
        replace_file(folder / PIECES_FILE, model)
    model = (folder / PIECES_FILE).read_bytes()
    if not (folder / _PREPARED_FILE).is_file():
        _write_pieces(config, folder, PieceTokenizer(model), report)
    return _open(folder, model)


def _names(spec: BitextSpec) -> str:
    return ", ".join(file.path for file in itertools.islice(list_inputs(spec), 3))


class _Sink(NamedTuple):
    ids: GrowingArray
    offsets: GrowingArray
    hashes: list[np.ndarray]


def _write_pieces(
    config: TrainConfig, folder: Path, tokenizer: PieceTokenizer, report: Callable[[str, int], None]
) -> None:
    dropped: Counter[str] = Counter()
    pairs = truncated = 0
    ends = [0, 0]
    with (
        GrowingArray(folder / "source.ids.npy", "int32") as source_ids,
        GrowingArray(folder / "source.offsets.npy", "int64") as source_offsets,
        GrowingArray(folder / "target.ids.npy", "int32") as target_ids,
        GrowingArray(folder / "target.offsets.npy", "int64") as target_offsets,
    ):
        sinks = (_Sink(source_ids, source_offsets, []), _Sink(target_ids, target_offsets, []))
        for sink in sinks:
            sink.offsets.append(np.zeros(1, np.int64))
        for block in _blocks(_usable(config, dropped), BLOCK_PAIRS):
            sides, cut = _piece_block(config, tokenizer, block, dropped)
            for place, (sink, pieces) in enumerate(zip(sinks, sides, strict=True)):
                sink.ids.append(pieces.ids)
                sink.offsets.append(pieces.offsets[1:] + ends[place])
                sink.hashes.append(_sequence_hashes(pieces))
                ends[place] += len(pieces.ids)
            pairs += len(sides[0].lengths)
            truncated += cut
            report("pieces", pairs)
    if not pairs:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        raise InputError(f"{_names(config.bitext)}: none of its pairs can be used for training ({reasons})")
    for name, sink in zip(SIDES, sinks, strict=True):
        _, groups = np.unique(np.concatenate(sink.hashes), return_inverse=True)
        np.save(folder / f"{name}.groups.npy", groups.astype(np.int64))
    facts = {"dropped": dict(sorted(dropped.items())), "truncated": truncated}
    replace_file(folder / _PREPARED_FILE, json.dumps(facts).encode())


def _usable(config: TrainConfig, dropped: Counter[str]) -> Iterator[Row]:
    """The rows that can be pairs; of each domain no more than the cap. The column of the domain is read as the id."""
    spec = config.bitext
    if config.domain_column is not None:
        spec = spec.model_copy(update={"id": config.domain_column})
    taken: Counter[str] = Counter()
    for row in read_rows(spec):
        reason = row.reason
        if reason is None and config.domain_cap is not None:
            taken[row.id] += 1
            if taken[row.id] > config.domain_cap:
                reason = "domain_cap"
        if reason is None:
            yield row
        else:
            dropped[reason] += 1


def _blocks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while block := list(itertools.islice(iterator, size)):
        yield block


def _piece_block(
    config: TrainConfig, tokenizer: PieceTokenizer, block: list[Row], dropped: Counter[str]
) -> tuple[tuple[Pieces, Pieces], int]:
    """Piece ids of both sides of the pairs worth keeping, and how many of these sentences were cut."""
    source, target = (tokenizer([row.texts[side] for row in block], config.threads) for side in (0, 1))
    shortest = np.minimum(source.lengths, target.lengths)
    dropped["no_pieces"] += int((shortest == 0).sum())
    dropped["too_few_pieces"] += int(((shortest > 0) & (shortest < config.min_pieces)).sum())
    rows = np.flatnonzero(shortest >= config.min_pieces)
    source, target = source.take(rows), target.take(rows)
    cut = sum(int((pieces.lengths > config.max_pieces).sum()) for pieces in (source, target))
    return (source.truncate(config.max_pieces), target.truncate(config.max_pieces)), cut


def _sequence_hashes(pieces: Pieces) -> np.ndarray:
    """A 64-bit number for each piece sequence: a sum of mixed (piece, place) numbers."""
    places = np.arange(len(pieces.ids)) - np.repeat(pieces.offsets[:-1], pieces.lengths)
    with np.errstate(over="ignore"):
        mixed = _mix(pieces.ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + _mix(places.astype(np.uint64)))
        return np.add.reduceat(mixed, pieces.offsets[:-1]) if len(mixed) else np.zeros(0, np.uint64)


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: neighbouring numbers come out unrelated."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _open(folder: Path, model: bytes) -> PairPieces:
    facts = json.loads((folder / _PREPARED_FILE).read_text(encoding="utf-8"))
    sides = [
        Pieces(
            np.load(folder / f"{name}.ids.npy", mmap_mode="r"), np.load(folder / f"{name}.offsets.npy", mmap_mode="r")
        )
        for name in SIDES
    ]
    groups = [np.load(folder / f"{name}.groups.npy", mmap_mode="r") for name in SIDES]
    size = PieceTokenizer(model).size
    return PairPieces(sides[0], sides[1], groups[0], groups[1], model, size, facts["dropped"], facts["truncated"])
