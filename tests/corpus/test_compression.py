from __future__ import annotations

import gzip
import lzma
import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.corpus import CorpusSpec, compression, list_inputs, read_tables
from mining.corpus.compression import open_seekable, read_pieces
from mining.errors import InputError, RunError, UsageError
from mining.io.files import file_hash, new_digest

EXTENSIONS = [".gz", ".bz2", ".xz", ".zst"]


def _varied(n: int) -> bytes:
    draw = random.Random(1)
    return b"".join(b"%d line %d\n" % (i, draw.getrandbits(64)) for i in range(n))


@pytest.mark.parametrize("extension", ["", *EXTENSIONS])
def test_content_comes_back(write, extension):
    data = _varied(20_000)
    path = write(f"a.txt{extension}", data)
    assert b"".join(read_pieces(path)) == data
    with open_seekable(path) as file:
        file.seek(5)
        assert file.read() == data[5:]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_several_streams_in_one_file(tmp_path: Path, compress, extension):
    path = tmp_path / f"a.txt{extension}"
    path.write_bytes(b"".join(compress(extension, data) for data in (b"a\n", b"", b"b\n")))
    assert b"".join(read_pieces(str(path))) == b"a\nb\n"


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_truncation_within_the_second_stream(tmp_path: Path, compress, extension):
    path = tmp_path / f"a.txt{extension}"
    first, second = compress(extension, b"a\n"), compress(extension, b"b\n")
    for kept in range(1, len(second)):
        path.write_bytes(first + second[:kept])
        with pytest.raises(InputError, match="truncated or corrupt"):
            list(read_pieces(str(path)))


def test_xz_streams_may_be_padded(tmp_path: Path):
    path = tmp_path / "a.xz"
    path.write_bytes(lzma.compress(b"a") + b"\0" * 8 + lzma.compress(b"b") + b"\0" * 4)
    assert b"".join(read_pieces(str(path))) == b"ab"


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.9, -1])
def test_truncated_file_is_an_error_with_file_and_line(write, texts, extension, kept):
    lines = _varied(20_000)
    path = Path(write(f"a.txt{extension}", lines))
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))] if kept >= 0 else data[:-1])
    with pytest.raises(InputError, match=rf"a\.txt\{extension}, after line \d+: truncated or corrupt") as caught:
        texts(str(path))
    if kept == 0.9 and extension in (".gz", ".xz"):
        assert int(str(caught.value).split("after line ")[1].split(":")[0]) > 5_000


def test_lines_before_the_truncation_are_read(write):
    path = Path(write("a.txt.gz", _varied(20_000)))
    path.write_bytes(path.read_bytes()[:-1000])
    content = bytearray()

    def collect() -> None:
        for piece in read_pieces(str(path)):
            content.extend(piece)

    with pytest.raises(InputError) as caught:
        collect()
    assert content.count(b"\n") > 5_000
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_file_that_is_not_what_its_extension_says(tmp_path: Path, texts, extension):
    path = tmp_path / f"a.txt{extension}"
    path.write_bytes(b"plain text\n" * 10)
    with pytest.raises(InputError, match="after line 0: truncated or corrupt"):
        texts(str(path))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_corrupt_bytes(write, texts, extension):
    path = Path(write(f"a.txt{extension}", _varied(20_000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    data[len(data) // 2 + 7] ^= 0xFF
    path.write_bytes(data)
    if extension == ".zst":  # without a checksum zstd may decode the damage; with one it never does
        import zstandard

        whole = zstandard.ZstdCompressor(write_checksum=True).compress(_varied(20_000))
        data = bytearray(whole)
        data[-1] ^= 0xFF
        path.write_bytes(data)
    with pytest.raises(InputError, match="truncated or corrupt"):
        texts(str(path))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_garbage_after_the_end_is_an_error(write, texts, extension):
    path = Path(write(f"a.txt{extension}", b"a\n"))
    path.write_bytes(path.read_bytes() + b"garbage that is no stream at all")
    with pytest.raises(InputError, match="truncated or corrupt"):
        texts(str(path))


def test_extension_is_taken_without_case(tmp_path: Path, texts):
    path = tmp_path / "A.TXT.GZ"
    path.write_bytes(gzip.compress(b"a\n"))
    assert texts(str(path)) == ["a"]


def test_no_room_to_decompress_into_is_one_line(write, monkeypatch):
    path = write("a.parquet.gz", b"one")
    full = partial(open, "/dev/full", "r+b")
    monkeypatch.setattr(compression.tempfile, "TemporaryFile", full)
    with pytest.raises(RunError, match=r"a\.parquet\.gz: cannot be decompressed into .*: No space left"):
        open_seekable(path).__enter__()


def test_missing_file():
    with pytest.raises(UsageError, match=r"nowhere\.txt: cannot be read: No such file"):
        list(read_pieces("nowhere.txt"))
    with pytest.raises(UsageError, match=r"nowhere\.parquet: cannot be read"):
        open_seekable("nowhere.parquet").__enter__()


def _hashed(path: str, **settings) -> str:
    digest = new_digest()
    spec = CorpusSpec(path=path, **settings)
    for _ in read_tables(spec, list_inputs(spec)[0], digest):
        pass
    return digest.hexdigest()


@pytest.mark.parametrize("extension", ["", *EXTENSIONS])
@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.txt", b"one\ntwo \xff\n", {"invalid_utf8": "replace"}),
        ("a.tsv", b"1\tone\n2\ttwo\n", {"columns": ["id", "text"]}),
        ("a.jsonl", b'{"text": "one"}\n', {}),
        ("a.tmx", b"<tmx><tu><tuv xml:lang='en'><seg>a</seg></tuv></tu></tmx>\n\n", {"text": "en"}),
        ("a.po", b'msgid "a"\nmsgstr "b"\n', {"text": "msgid"}),
    ],
)
def test_what_was_read_is_hashed_as_it_lies_on_disk(write, extension, name, content, settings):
    path = write(f"{name}{extension}", content)
    assert _hashed(path, **settings) == file_hash(path)


@pytest.mark.parametrize("extension", ["", ".gz"])
def test_a_parquet_file_is_hashed_whole(write, extension):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["one", "two"], "unread": ["x", "y"]}), sink)
    path = write(f"a.parquet{extension}", sink.getvalue().to_pybytes())
    assert _hashed(path) == file_hash(path)


def test_a_seekable_file_that_is_written_to_meanwhile(write):
    path = write("a.parquet", b"one")
    with pytest.raises(InputError, match=r"a\.parquet: was written to while it was read"), open_seekable(path):
        Path(path).write_bytes(b"another")
