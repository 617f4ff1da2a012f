"""Plain and compressed files as pieces of bytes; a compressed file that ends early is an error,
never an end."""

from __future__ import annotations

import bz2
import lzma
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from mining.errors import InputError, RunError, UsageError

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
"""By extension."""

PLAIN_PIECE = 1 << 20
PIECE = 1 << 16
"""Bytes decompressed at a time: what precedes a fault is handed on up to the last whole piece."""
_NO_BYTES = "the file has no bytes at all"  # not even the header that compressed nothing has


def compression_of(path: str) -> str | None:
    """``gzip``, ``bz2``, ``xz``, ``zstd``, or None for a plain file; by extension, whatever its
    case."""
    return COMPRESSIONS.get(os.path.splitext(path)[1].lower())


def without_compression(path: str) -> str:
    """The path without the extension of its compression."""
    return os.path.splitext(path)[0] if compression_of(path) else path


class BrokenStreamError(InputError):
    """The bytes of a file cannot be had; ``problem`` says why, without the path, for a reader that
    knows the line."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem


class Digest(Protocol):
    """What takes in the bytes of a file as they lie on disk, in order, while it is read: a hash of
    ``hashlib``."""

    def update(self, data: bytes, /) -> None:
        """Take in the next bytes."""
        ...


def read_pieces(path: str, digest: Digest | None = None) -> Iterator[bytes]:
    """The content of a file, decompressed by its extension (.gz .bz2 .xz .zst), as non-empty pieces
    of at most 1 MiB.

    Several compressed streams in one file are read one after the other. After the last piece
    `digest` has been given the whole file as it lies on disk. Raises UsageError if the file cannot
    be opened, BrokenStreamError (an InputError) if it is truncated, corrupt or not what its
    extension says.
    """
    compression = compression_of(path)
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, opened apart for its own error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        source = _Source(file, digest)
        try:
            if compression is None:
                yield from iter(lambda: source.read(PLAIN_PIECE), b"")
            else:
                yield from _decompressed(source, compression)
        except (OSError, EOFError, lzma.LZMAError) as error:
            problem = f"truncated or corrupt {compression} data" if compression else "cannot be read"
            raise BrokenStreamError(path, f"{problem} ({_one_line(error)}): fetch or write the file again") from None


def read_all(path: str, digest: Digest | None = None) -> bytes:
    """The whole content, for formats whose files are small (gettext catalogues)."""
    return b"".join(read_pieces(path, digest))


@contextmanager
def open_seekable(path: str, digest: Digest | None = None) -> Iterator[IO[bytes]]:
    """A binary file that can seek; a compressed one is first written, decompressed, to an unnamed
    temporary file.

    `digest` is given the whole file, as it lies on disk, before anything else is read. Raises
    InputError at the end if a plain file was written to meanwhile: its parts need not belong
    together, nor to the digest; RunError where there is no room for the temporary file.
    """
    if compression_of(path) is None:
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below, opened apart for its own error
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        with file:
            before = _state(file)
            if digest is not None:
                for piece in iter(lambda: file.read(PLAIN_PIECE), b""):
                    digest.update(piece)
                file.seek(0)
            yield file
            if _state(file) != before:
                raise InputError(f"{path}: was written to while it was read: run again when it is whole")
        return
    # Without a buffer, which would be written once more, in vain, at the end.
    with tempfile.TemporaryFile(buffering=0) as spool:
        try:
            for piece in read_pieces(path, digest):
                view = memoryview(piece)
                while view:
                    view = view[spool.write(view) :]
            spool.seek(0)
        except OSError as error:
            where, why = tempfile.gettempdir(), error.strerror or error
            raise RunError(
                f"{path}: cannot be decompressed into {where}: {why}: make room there, or set TMPDIR to another folder"
            ) from None
        yield spool


def _state(file: IO[bytes]) -> tuple[int, int]:
    facts = os.fstat(file.fileno())
    return facts.st_size, facts.st_mtime_ns


class _Source:
    """The bytes of a file as they lie on disk, in order, also given to a digest; `size` counts
    them."""

    closed = False  # Arrow asks

    def __init__(self, file: IO[bytes], digest: Digest | None) -> None:
        self._file, self._digest = file, digest
        self.size = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        if self._digest is not None:
            self._digest.update(data)
        return data

    def close(self) -> None:
        """The file is closed by who opened it."""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _decompressed(source: _Source, compression: str) -> Iterator[bytes]:
    if compression == "xz":
        yield from _decoded_pieces(source, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ))
    elif compression == "bz2":
        yield from _decoded_pieces(source, bz2.BZ2Decompressor)
    else:
        yield from _arrow_pieces(source, compression)
    if not source.size:
        raise EOFError(_NO_BYTES)


def _arrow_pieces(source: _Source, compression: str) -> Iterator[bytes]:
    """gzip and zstd through Arrow, whose streams refuse a truncated file; those of zstandard end
    without a word."""
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression) as stream:
            yield from iter(lambda: stream.read(PIECE), b"")
    except pa.ArrowException as error:
        raise OSError(str(error)) from None


class _Decoder(Protocol):
    """A decompressor of one stream, of ``bz2`` or ``lzma``."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _decoded_pieces(source: _Source, new_decoder: Callable[[], _Decoder]) -> Iterator[bytes]:
    """bz2 and xz stream by stream: ``bz2.open`` and ``lzma.open`` ignore faulty data after the
    first stream."""
    decoder = new_decoder()
    compressed = source.read(PIECE)
    while True:
        piece = decoder.decompress(compressed, PIECE)
        if piece:
            yield piece
        compressed = b""
        if decoder.eof:
            compressed = decoder.unused_data.lstrip(b"\0")  # xz allows zeros between streams
            while not compressed:
                more = source.read(PIECE)
                if not more:
                    return
                compressed = more.lstrip(b"\0")
            decoder = new_decoder()
        elif decoder.needs_input:
            compressed = source.read(PIECE)
            if not compressed:
                raise EOFError("the data ends before its end marker" if source.size else _NO_BYTES)
