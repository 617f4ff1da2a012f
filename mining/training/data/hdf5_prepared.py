"""HDF5 pairs of P-SP to prepared pairs and back."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece

from mining.encoder.tokenizers._types import read_type_lines
from mining.encoder.tokenizers.pieces import PIECES_FILE
from mining.encoder.tokenizers.psp import UNKNOWN, VOCABULARY_FILE, PspTokenizer, vocabulary_bytes
from mining.encoder.tokens import WORD_BOUNDARY, Tokens
from mining.errors import InputError, UsageError
from mining.io.arrays import GrowingArray, array_facts, write_array
from mining.io.json_file import write_json
from mining.schemas import SIDES, Reason
from mining.training.data.hdf5 import (
    BLOCK_ROWS,
    VOCABULARY_SUFFIX,
    Block,
    FirstSeen,
    interleave,
    pairs_in,
    read_hdf5,
    read_vocabulary,
    write_hdf5,
    write_vocabulary,
)
from mining.training.data.prepared import (
    DOMAIN,
    FORMAT_VERSION,
    GROUPS,
    IDS,
    OFFSETS,
    PreparedPairs,
    array_name,
    open_prepared,
)
from mining.training.data.vocabularies import PREPARED_FILE, save_unit

if TYPE_CHECKING:
    from mining.encoder.tokenizers import Tokenizer

Advance = Callable[[int], None]


def silent(pairs: int) -> None:
    """Tell nobody."""


def prepare_hdf5(
    path: Path,
    folder: Path,
    *,
    vocabulary: Path | None = None,
    pieces: bytes | None = None,
    lowercase: bool = True,
    languages: tuple[str, str] | None = None,
    advance: Advance = silent,
) -> PreparedPairs:
    """The pairs of an HDF5 file as a prepared folder, ready for training; `folder` is new or empty.

    `vocabulary` (by default the file beside `path`) names the pieces, `pieces` is the sentencepiece
    model that made them, which texts to be encoded go through, in lower case if `lowercase`. Rows
    with an empty side are left out and counted. `advance` is told the rows of each block.

    Raises UsageError when a file is missing or does not fit, InputError for a row with an id beyond
    the vocabulary and when no row can be used.
    """
    names = read_vocabulary(vocabulary or path.with_suffix(VOCABULARY_SUFFIX))
    unit = _unit(names, pieces, lowercase)
    rows = pairs_in(path)
    folder.mkdir(parents=True, exist_ok=True)
    with _PairWriter(folder, unit) as writer:
        for source, target in read_hdf5(path):
            _check_ids(path, writer.rows, (source, target), unit.size)
            writer.append(source, target)
            advance(len(source.offsets) - 1)
        if not writer.pairs:
            raise InputError(f"{path}: none of its {rows} rows has ids on both sides")
    writer.finish(path.stem, languages, {"hdf5": path.name, "lowercase": lowercase})
    return open_prepared(folder)


def write_prepared_hdf5(folder: Path, path: Path, advance: Advance = silent) -> Path:
    """Write the prepared pairs of `folder` as an HDF5 file at `path`; returns the vocabulary file
    beside it.

    Ids are numbered anew in the order in which they are first seen over both sides, the unknown
    unit is one more than the last. Raises UsageError when the pairs are of several units, which
    this layout cannot hold.
    """
    pairs = open_prepared(folder)
    if len(pairs.tokenizers) != 1:
        raise UsageError(f"{folder}: has the units {', '.join(pairs.kinds)}; HDF5 holds one kind: prepare it anew")
    unit = pairs.tokenizers[0]
    names = unit_names(unit)
    numbering = FirstSeen(len(names))
    for source, target in _blocks(pairs):
        ids = interleave(source, target).ids
        numbering.add(ids[ids != unit.unknown])
    order, numbers = numbering.order(), numbering.numbers
    numbers[unit.unknown] = numbering.seen

    def renumbered() -> Iterator[Block]:
        for source, target in _blocks(pairs):
            yield _renumbered(source, numbers), _renumbered(target, numbers)
            advance(len(source.offsets) - 1)

    beside = path.with_suffix(VOCABULARY_SUFFIX)
    write_vocabulary(beside, [names[number] for number in order])
    write_hdf5(path, len(pairs), renumbered())
    return beside


def unit_names(unit: Tokenizer) -> list[str]:
    """The text of each unit by its id."""
    if isinstance(unit, PspTokenizer):
        return unit.names()
    files = unit.files()
    if PIECES_FILE in files:
        processor: Any = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(files[PIECES_FILE])
        return [processor.id_to_piece(number) for number in range(unit.size)]
    ((name, data),) = files.items()
    return [UNKNOWN, *read_type_lines(data, name)]


def _unit(names: Sequence[str], pieces: bytes | None, lowercase: bool) -> PspTokenizer:
    if pieces is None and any(name.startswith(WORD_BOUNDARY) for name in names):
        raise UsageError(
            "the vocabulary is of pieces: name the sentencepiece model that made them with --sentencepiece"
        )
    files = {VOCABULARY_FILE: vocabulary_bytes(names)} | ({PIECES_FILE: pieces} if pieces is not None else {})
    try:
        return PspTokenizer(files, {"lookup": "pieces", "lowercase": lowercase})
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_ids(path: Path, first: int, block: Block, size: int) -> None:
    for side, pieces in zip(SIDES, block, strict=True):
        faulty = np.flatnonzero((pieces.ids < 0) | (pieces.ids >= size))
        if len(faulty):
            row = first + int(np.searchsorted(pieces.offsets, faulty[0], side="right")) - 1
            raise InputError(
                f"{path}: row {row}, {side}: id {pieces.ids[faulty[0]]}, but the vocabulary ends at {size - 1}: it is "
                "of other data"
            )


def _blocks(pairs: PreparedPairs) -> Iterator[Block]:
    for start in range(0, len(pairs), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(pairs)))
        yield pairs.source[0].take(rows), pairs.target[0].take(rows)


def _renumbered(pieces: Tokens, numbers: np.ndarray) -> Tokens:
    return Tokens(numbers[pieces.ids].astype(np.int32), pieces.offsets)


class _PairWriter:
    """The arrays of a prepared folder, block by block; the description comes last."""

    def __init__(self, folder: Path, unit: PspTokenizer) -> None:
        self._folder, self._unit = folder, unit
        self._stack = ExitStack()
        self._keys: list[np.ndarray] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._ends = [0, 0]
        self._names: list[str] = []
        self.rows = self.pairs = 0

    def __enter__(self) -> _PairWriter:
        self._sinks = [
            [self._array(name, side, kind) for name, kind in ((IDS, "int32"), (OFFSETS, "int64"))] for side in SIDES
        ]
        for _, offsets in self._sinks:
            offsets.append(np.zeros(1, np.int64))
        return self

    def _array(self, name: str, side: str, dtype: str) -> GrowingArray:
        file = array_name(name, side, self._unit.kind)
        self._names.append(file)
        return self._stack.enter_context(GrowingArray(self._folder / file, dtype))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if kind is not None:
            for name in self._names:
                (self._folder / name).unlink()

    def append(self, source: Tokens, target: Tokens) -> None:
        """Add the rows that have ids on both sides."""
        self.rows += len(source.offsets) - 1
        rows = np.flatnonzero((source.lengths > 0) & (target.lengths > 0))
        self.pairs += len(rows)
        for place, side in enumerate((source, target)):
            pieces = side.take(rows)
            ids, offsets = self._sinks[place]
            ids.append(pieces.ids)
            offsets.append(pieces.offsets[1:] + self._ends[place])
            self._ends[place] += len(pieces.ids)
        both = interleave(source.take(rows), target.take(rows))
        self._keys.append(_text_keys(both))
        self._digest.update(both.ids.tobytes())
        self._digest.update(both.lengths.tobytes())

    def finish(self, name: str, languages: tuple[str, str] | None, settings: dict[str, Any]) -> None:
        """Write groups, domains, the unit, and last the description."""
        _, groups = np.unique(np.concatenate(self._keys), return_inverse=True)
        arrays = {array_name(DOMAIN): np.zeros(self.pairs, np.uint16)}
        for place, side in enumerate(SIDES):
            arrays[array_name(GROUPS, side)] = np.ascontiguousarray(groups.reshape(-1, 2)[:, place], dtype=np.int64)
        for file, values in arrays.items():
            write_array(self._folder / file, values)
        described = save_unit(self._unit, self._folder)
        self._digest.update(json.dumps([described, languages, settings["lowercase"]], sort_keys=True).encode())
        dropped = {Reason.NO_UNITS: self.rows - self.pairs} if self.rows > self.pairs else {}
        facts = {
            "format_version": FORMAT_VERSION,
            "identity": self._digest.hexdigest(),
            "settings": settings,
            "rows": self.rows,
            "pairs": self.pairs,
            "dropped": dropped,
            "truncated": 0,
            "warnings": [],
            "units": [described],
            "domains": [{"name": name, "languages": languages, "weight": 1.0, "pairs": self.pairs, "dropped": dropped}],
            "arrays": {file: array_facts(self._folder / file) for file in sorted([*self._names, *arrays])},
        }
        write_json(self._folder / PREPARED_FILE, facts, indent=1, sort_keys=False)


def _text_keys(pieces: Tokens) -> np.ndarray:
    """(n,) uint64: a digest of the ids of each text."""
    data = np.ascontiguousarray(pieces.ids, dtype=np.int32).tobytes()
    bounds = (np.asarray(pieces.offsets) * pieces.ids.itemsize).tolist()
    digests = [hashlib.blake2b(data[start:stop], digest_size=8).digest() for start, stop in itertools.pairwise(bounds)]
    return np.frombuffer(b"".join(digests), np.uint64)
