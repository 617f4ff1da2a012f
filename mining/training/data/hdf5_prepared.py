"""HDF5 pairs of P-SP to prepared pairs and back."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import sentencepiece

from mining.encoder.tokenizers import Tokenizer
from mining.encoder.tokenizers._types import read_type_lines
from mining.encoder.tokenizers.pieces import PIECES_FILE
from mining.encoder.tokenizers.psp import UNKNOWN, VOCABULARY_FILE, PspTokenizer, vocabulary_bytes
from mining.encoder.tokens import WORD_BOUNDARY, Tokens
from mining.errors import InputError, UsageError
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
    FORMAT_VERSION,
    Domain,
    PairWriter,
    PreparedFacts,
    PreparedPairs,
    open_prepared,
    save_tokenizer,
)

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
    tokenizer = _tokenizer(names, pieces, lowercase)
    rows = pairs_in(path)
    folder.mkdir(parents=True, exist_ok=True)
    with _removed_unless_whole(folder), PairWriter(folder, [tokenizer.kind]) as writer:
        imported = _Imported(folder, tokenizer, writer)
        for source, target in read_hdf5(path):
            _check_ids(path, imported.rows, (source, target), tokenizer.size)
            imported.append(source, target)
            advance(len(source.offsets) - 1)
        if not imported.pairs:
            raise InputError(f"{path}: none of its {rows} rows has ids on both sides")
    imported.finish(path.stem, languages, {"hdf5": path.name, "lowercase": lowercase})
    return open_prepared(folder)


@contextmanager
def _removed_unless_whole(folder: Path) -> Iterator[None]:
    """Remove the arrays when the pairs turn out to be faulty; `folder` held none before."""
    try:
        yield
    except BaseException:
        for path in folder.glob("*.npy"):
            path.unlink()
        raise


def write_prepared_hdf5(folder: Path, path: Path, advance: Advance = silent) -> Path:
    """Write the prepared pairs of `folder` as an HDF5 file at `path`; returns the vocabulary file
    beside it.

    Ids are numbered anew in the order in which they are first seen over both sides, the unknown
    token is one more than the last. Raises UsageError when the pairs have several kinds of tokens,
    which this layout cannot hold.
    """
    pairs = open_prepared(folder)
    if len(pairs.tokenizers) != 1:
        raise UsageError(f"{folder}: has the tokens {', '.join(pairs.kinds)}; HDF5 holds one kind: prepare it anew")
    tokenizer = pairs.tokenizers[0]
    names = token_names(tokenizer)
    numbering = FirstSeen(len(names))
    for source, target in _blocks(pairs):
        ids = interleave(source, target).ids
        numbering.add(ids[ids != tokenizer.unknown])
    order, numbers = numbering.order(), numbering.numbers
    numbers[tokenizer.unknown] = numbering.seen

    def renumbered() -> Iterator[Block]:
        for source, target in _blocks(pairs):
            yield _renumbered(source, numbers), _renumbered(target, numbers)
            advance(len(source.offsets) - 1)

    beside = path.with_suffix(VOCABULARY_SUFFIX)
    write_vocabulary(beside, [names[number] for number in order])
    write_hdf5(path, len(pairs), renumbered())
    return beside


def token_names(tokenizer: Tokenizer) -> list[str]:
    """The text of each token by its id."""
    if isinstance(tokenizer, PspTokenizer):
        return tokenizer.names()
    files = tokenizer.files()
    if PIECES_FILE in files:
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(files[PIECES_FILE])
        return [processor.id_to_piece(number) for number in range(tokenizer.size)]
    ((name, data),) = files.items()
    return [UNKNOWN, *read_type_lines(data, name)]


def _tokenizer(names: Sequence[str], pieces: bytes | None, lowercase: bool) -> PspTokenizer:
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
    for side, tokens in zip(SIDES, block, strict=True):
        faulty = np.flatnonzero((tokens.ids < 0) | (tokens.ids >= size))
        if len(faulty):
            row = first + int(np.searchsorted(tokens.offsets, faulty[0], side="right")) - 1
            raise InputError(
                f"{path}: row {row}, {side}: id {tokens.ids[faulty[0]]}, but the vocabulary ends at {size - 1}: it is "
                "of other data"
            )


def _blocks(pairs: PreparedPairs) -> Iterator[Block]:
    for start in range(0, len(pairs), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(pairs)))
        yield pairs.source[0].take(rows), pairs.target[0].take(rows)


def _renumbered(tokens: Tokens, numbers: np.ndarray) -> Tokens:
    return Tokens(numbers[tokens.ids].astype(np.int32), tokens.offsets)


class _Imported:
    """The rows that have ids on both sides, on their way into a prepared folder."""

    def __init__(self, folder: Path, tokenizer: PspTokenizer, writer: PairWriter) -> None:
        self._folder, self._tokenizer, self._writer = folder, tokenizer, writer
        self._keys: list[np.ndarray] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self.rows = self.pairs = 0

    def append(self, source: Tokens, target: Tokens) -> None:
        """Add the rows that have ids on both sides."""
        self.rows += len(source.offsets) - 1
        rows = np.flatnonzero((source.lengths > 0) & (target.lengths > 0))
        self.pairs += len(rows)
        sides = source.take(rows), target.take(rows)
        self._writer.append(self._tokenizer.kind, sides)
        both = interleave(*sides)
        self._keys.append(_text_keys(both))
        self._digest.update(both.ids.tobytes())
        self._digest.update(both.lengths.tobytes())

    def finish(self, name: str, languages: tuple[str, str] | None, settings: dict[str, object]) -> None:
        """Write groups, domains, the vocabulary, and last the description."""
        self._writer.write_labels(np.concatenate(self._keys).reshape(-1, 2), np.zeros(self.pairs, np.uint16))
        described = save_tokenizer(self._tokenizer, self._folder)
        decided = [asdict(described), languages, settings["lowercase"]]
        self._digest.update(json.dumps(decided, sort_keys=True).encode())
        dropped = {str(Reason.NO_UNITS): self.rows - self.pairs} if self.rows > self.pairs else {}
        PreparedFacts(
            format_version=FORMAT_VERSION,
            identity=self._digest.hexdigest(),
            settings=settings,
            versions=None,
            rows=self.rows,
            pairs=self.pairs,
            dropped=dropped,
            truncated=0,
            warnings=[],
            units=[described],
            domains=[Domain(name, languages, 1.0, self.pairs, dropped)],
            arrays=self._writer.described(),
        ).write(self._folder)


def _text_keys(tokens: Tokens) -> np.ndarray:
    """(n,) uint64: a digest of the ids of each text."""
    data = np.ascontiguousarray(tokens.ids, dtype=np.int32).tobytes()
    bounds = (np.asarray(tokens.offsets) * tokens.ids.itemsize).tolist()
    digests = [hashlib.blake2b(data[start:stop], digest_size=8).digest() for start, stop in itertools.pairwise(bounds)]
    return np.frombuffer(b"".join(digests), np.uint64)
