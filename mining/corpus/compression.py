"""Plain and compressed files as pieces of bytes; a compressed file that ends early is an error, never an end."""

from __future__ import annotations

import bz2
import lzma
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO

from mining.corpus.spec import compression_of
from mining.errors import InputError, UsageError

PLAIN_PIECE = 1 << 20
PIECE = 1 << 16
"""Bytes decompressed at a time: what precedes a fault is handed on up to the last whole piece."""


class BrokenStreamError(InputError):
    """The bytes of a file cannot be had; ``problem`` says why, without the path, for a reader that knows the line."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem


def read_pieces(path: str) -> Iterator[bytes]:
    """The content of a file, decompressed by its extension (.gz .bz2 .xz .zst), as non-empty pieces of at most 1 MiB.

    Several compressed streams in one file are read one after the other. Raises UsageError if the file cannot be opened,
    BrokenStreamError (an InputError) if it is truncated, corrupt or not what its extension says.
    """
    compression = compression_of(path)
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, opened apart for its own error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        try:
            if compression is None:
                yield from iter(lambda: file.read(PLAIN_PIECE), b"")
            else:
                yield from _decompressed(file, compression)
        except (OSError, EOFError, lzma.LZMAError) as error:
            problem = f"truncated or corrupt {compression} data" if compression else "cannot be read"
            raise BrokenStreamError(path, f"{problem} ({_one_line(error)}): fetch or write the file again") from None


def read_all(path: str) -> bytes:
    """The whole content, for formats whose files are small (gettext catalogues)."""
    return b"".join(read_pieces(path))


def open_seekable(path: str) -> IO[bytes]:
    """A binary file that can seek; a compressed one is first written, decompressed, to an unnamed temporary file."""
    if compression_of(path) is None:
        try:
            return open(path, "rb")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    # The caller closes it; it vanishes then, since it has no name.
    spool = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        for piece in read_pieces(path):
            spool.write(piece)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _decompressed(file: BinaryIO, compression: str) -> Iterator[bytes]:
    if not file.read(1):
        raise EOFError("the file has no bytes at all")  # not even the header that compressed nothing has
    file.seek(0)
    if compression == "xz":
        return _decoded_pieces(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ))
    if compression == "bz2":
        return _decoded_pieces(file, bz2.BZ2Decompressor)
    return _arrow_pieces(file, compression)


def _arrow_pieces(file: BinaryIO, compression: str) -> Iterator[bytes]:
    """gzip and zstd through Arrow, whose streams refuse a truncated file; those of zstandard end without a word."""
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression) as stream:
            yield from iter(lambda: stream.read(PIECE), b"")
    except pa.ArrowException as error:
        raise OSError(str(error)) from None


def _decoded_pieces(file: BinaryIO, new_decoder: Callable[[], Any]) -> Iterator[bytes]:
    """bz2 and xz stream by stream: ``bz2.open`` and ``lzma.open`` ignore faulty data after the first stream."""
    decoder = new_decoder()
    compressed = file.read(PIECE)
    while True:
        piece = decoder.decompress(compressed, PIECE)
        if piece:
            yield piece
        compressed = b""
        if decoder.eof:
            compressed = decoder.unused_data.lstrip(b"\0")  # xz allows zeros between streams
            while not compressed:
                more = file.read(PIECE)
                if not more:
                    return
                compressed = more.lstrip(b"\0")
            decoder = new_decoder()
        elif decoder.needs_input:
            compressed = file.read(PIECE)
            if not compressed:
                raise EOFError("the data ends before its end marker")
