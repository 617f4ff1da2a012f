r"""Pairs of ids as P-SP keeps them: HDF5, and a vocabulary file of lines ``piece\tid`` beside it.

One dataset ``data`` of shape (N, 2), each cell the int32 ids of one side. Rows are read and written
by the thousand. Format: the code published with Wieting et al. 2022. Needs h5py, which is no base
requirement."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from mining.corpus.lines import FaultyLine, numbered_lines
from mining.encoder.tokenizers.psp import UNKNOWN
from mining.encoder.tokens import Tokens
from mining.errors import InputError, RunError, UsageError
from mining.io.atomic import replacing
from mining.shown import listed, quoted, short

if TYPE_CHECKING:
    import h5py

DATASET = "data"
BLOCK_ROWS = 8192
VOCABULARY_SUFFIX = ".vocab"
"""Ending of the vocabulary file, in place of that of the HDF5 file."""
SUFFIXES = (".h5", ".hdf5")
_MAX_ENTRY_CHARS = 10_000
_CELL_BYTES = 16
"""What a file keeps of a cell beside its ids: how many they are and where they lie."""
_MOST_PACKED = 1100
"""Bytes that one byte of a compressed part becomes at most (of deflate, 1032)."""
_LARGEST_CHUNK = 1 << 28
_UNWRITTEN = 1 << 28
"""Bytes of cells that may never have been written: eight million empty rows."""

Block = tuple[Tokens, Tokens]
"""The ids of both sides of some rows."""


def pairs_in(path: Path) -> int:
    """Rows of the file; raises UsageError when it is missing, truncated or not in this layout."""
    with _opened(path) as file:
        return int(_dataset(file, path).shape[0])


def read_hdf5(path: Path, block_rows: int = BLOCK_ROWS) -> Iterator[Block]:
    """The rows in blocks, in their order, empty sides and all.

    Raises UsageError when the file is missing or not in this layout, InputError when a row cannot
    be read.
    """
    with _opened(path) as file:
        data = _dataset(file, path)
        left = path.stat().st_size
        for start in range(0, data.shape[0], block_rows):
            try:
                cells = data[start : start + block_rows]
            except (OSError, RuntimeError, ValueError) as error:
                raise InputError(f"{path}: rows from {start} on cannot be read ({error}); copy it again") from None
            source, target = _flat(cells[:, 0]), _flat(cells[:, 1])
            left -= (len(source.ids) + len(target.ids)) * _item_size(data)
            if left < 0:
                # The same ids may be the contents of any number of cells.
                raise InputError(f"{path}: rows before {start + len(cells)}: more ids than the file has room for")
            yield source, target


def write_hdf5(path: Path, rows: int, blocks: Iterable[Block]) -> None:
    """Write `rows` rows, given in blocks; the file has its name only once it is whole.

    Raises RunError when the blocks are of another number of rows.
    """
    h5py = _h5py()
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        data = file.create_dataset(DATASET, (rows, 2), dtype=h5py.vlen_dtype(np.dtype(np.int32)))
        done = 0
        for source, target in blocks:
            both = interleave(source, target)
            count = len(both.offsets) // 2
            # Filled cell by cell: of sides of equal lengths numpy would make one more axis.
            cells = np.empty(2 * count, object)
            for index, (start, stop) in enumerate(itertools.pairwise(both.offsets.tolist())):
                cells[index] = both.ids[start:stop]
            done += count
            if done <= rows:
                data[done - count : done] = cells.reshape(count, 2)
        if done != rows:
            raise RunError(f"{path}: {rows} rows were to be written, but there are {done}")


def read_vocabulary(path: Path) -> list[str]:
    """The pieces by id; the last is `UNKNOWN`, which the published code adds after reading.

    Raises UsageError when the file is missing, InputError, with file and line, unless each id from
    0 stands once.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such vocabulary file; name it with --vocabulary")
    found: dict[int, str] = {}
    for number, line in numbered_lines(str(path), "strict", _MAX_ENTRY_CHARS):
        if isinstance(line, FaultyLine):
            raise InputError(f"{path}:{number}: {line.reason.words}")
        piece, tab, entry = line.rpartition("\t")
        if not tab or not entry.isascii() or not entry.isdigit():
            raise InputError(f"{path}:{number}: expected a piece, a tab and its id, not {line[:80]!r}")
        if int(entry) in found:
            raise InputError(f"{path}:{number}: id {entry} is of {found[int(entry)]!r} already")
        found[int(entry)] = piece
    names = [found.get(index) for index in range(len(found))]
    if None in names:
        raise InputError(f"{path}: its ids do not run from 0 to {len(found) - 1}: {names.index(None)} is missing")
    pieces = [name for name in names if name is not None]
    if len(set(pieces)) != len(pieces) or UNKNOWN in pieces[:-1]:
        twice = next((name for name in pieces if pieces.count(name) > 1), UNKNOWN)
        raise InputError(f"{path}: {twice!r} stands in it twice, or is {UNKNOWN} before the end")
    return pieces if pieces and pieces[-1] == UNKNOWN else [*pieces, UNKNOWN]


def write_vocabulary(path: Path, pieces: Sequence[str]) -> None:
    """Write `pieces` with their ranks as ids; raises UsageError for a piece with a line feed in
    it."""
    faulty = next((piece for piece in pieces if "\n" in piece or piece.endswith("\r")), None)
    if faulty is not None:
        raise UsageError(f"the piece {faulty!r} has a line feed: a vocabulary file cannot hold it")
    lines = "".join(f"{piece}\t{index}\n" for index, piece in enumerate(pieces))
    with replacing(path) as temporary:
        Path(temporary).write_bytes(lines.encode("utf-8"))


def interleave(source: Tokens, target: Tokens) -> Tokens:
    """The texts of both sides in turn: source 0, target 0, source 1, ..."""
    count = len(source.offsets) - 1
    ids = np.concatenate((source.ids, target.ids))
    offsets = np.concatenate((source.offsets, np.asarray(target.offsets[1:]) + source.offsets[-1]))
    return Tokens(ids, offsets).take(np.arange(2 * count).reshape(2, count).T.reshape(-1))


class FirstSeen:
    """Numbers ids in the order in which they are first seen."""

    def __init__(self, size: int) -> None:
        """`size`: ids are below it."""
        self.numbers = np.full(size, -1, np.int64)
        """(size,): the new number of each id, -1 for one not yet seen"""
        self.seen = 0

    def add(self, ids: np.ndarray) -> None:
        """Number what is new in `ids`, (total,), in its order."""
        fresh, first = np.unique(ids[self.numbers[ids] < 0], return_index=True)
        self.numbers[fresh[np.argsort(first)]] = np.arange(self.seen, self.seen + len(fresh))
        self.seen += len(fresh)

    def order(self) -> np.ndarray:
        """(seen,): the ids by their new numbers."""
        known = np.flatnonzero(self.numbers >= 0)
        return known[np.argsort(self.numbers[known])]


def _flat(cells: np.ndarray) -> Tokens:
    """One column of cells, each an array of ids."""
    lengths = np.fromiter(map(len, cells), np.int64, len(cells))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    ids = np.concatenate(cells) if len(cells) else np.zeros(0)
    return Tokens(ids.astype(np.int32, copy=False), offsets)


def _holds_ids(kind: np.dtype) -> bool:
    return bool(np.can_cast(kind, np.int32)) and kind.kind in "iu"


def _h5py() -> ModuleType:
    try:
        import h5py
    except ModuleNotFoundError:
        raise UsageError("HDF5 files need h5py: pip install h5py") from None
    return h5py


def _opened(path: Path) -> h5py.File:
    h5py = _h5py()
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        return h5py.File(path, "r", locking="best-effort")
    except OSError as error:
        raise UsageError(f"{path}: truncated or not an HDF5 file ({error}); copy it again") from None


def _dataset(file: h5py.File, path: Path) -> h5py.Dataset:
    """The dataset of `file`, after a look at its form."""
    h5py = _h5py()
    link = file.get(DATASET, getlink=True)
    if isinstance(link, (h5py.SoftLink, h5py.ExternalLink)):
        target = quoted(getattr(link, "filename", link.path))
        raise UsageError(f"{path}: '{DATASET}' is a link to {target}, and links are not followed")
    data = file.get(DATASET)
    if not isinstance(data, h5py.Dataset):
        raise UsageError(f"{path}: has no dataset '{DATASET}', but {_named(file)}")
    if data.is_virtual or data.id.get_create_plist().get_external_count():
        raise UsageError(f"{path}: '{DATASET}' lies in other files, and these are not read")
    inner = h5py.check_vlen_dtype(data.dtype)
    if data.shape is None or data.shape[1:] != (2,) or len(data.shape) != 2 or inner is None or not _holds_ids(inner):
        raise UsageError(
            f"{path}: '{DATASET}' has shape {data.shape} and type {short(str(data.dtype))}, not two lists of ids for "
            "each row"
        )
    _check_size(data, path)
    return data


def _named(file: h5py.File) -> str:
    # To list a group its links are not followed.
    return listed(list(itertools.islice(file, 11))) if len(file) else "nothing"


def _check_size(data: h5py.Dataset, path: Path) -> None:
    """Raise UsageError for a file that says a large number of rows and holds hardly any."""
    chunk = int(np.prod(data.chunks, dtype=object)) * _CELL_BYTES if data.chunks else 0
    if chunk > _LARGEST_CHUNK:
        raise UsageError(f"{path}: '{DATASET}' is kept in parts of {chunk:,} bytes, more than {_LARGEST_CHUNK:,}")
    stored = data.id.get_storage_size()
    if data.size * _CELL_BYTES > _UNWRITTEN + stored * (_MOST_PACKED if data.chunks else 1):
        raise UsageError(f"{path}: '{DATASET}' has {data.shape[0]:,} rows, but only {stored:,} bytes of them are there")


def _item_size(data: h5py.Dataset) -> int:
    return int(_h5py().check_vlen_dtype(data.dtype).itemsize)
