"""What holds for every format: compression, and that texts come back as they were written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polib
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mining.corpus import CorpusSpec, read_rows
from mining.corpus.lines import foreign
from mining.errors import InputError

TEXTS = ["one", "zwei Wörter", "три", "四\u2028四"]


def _parquet(texts: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink)
    return sink.getvalue()


def _tmx(texts: list[str]) -> bytes:
    units = "".join(f'<tu><tuv xml:lang="de"><seg>{text}</seg></tuv></tu>' for text in texts)
    return f"<tmx><body>{units}</body></tmx>".encode()


def _catalogue(texts: list[str]) -> polib.POFile:
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalogue.extend(polib.POEntry(msgid=f"key {i}", msgstr=text) for i, text in enumerate(texts))
    return catalogue


FILES: dict[str, tuple[bytes, dict[str, object]]] = {
    "a.txt": ("\n".join(TEXTS).encode(), {}),
    "a.tsv": ("".join(f"{i}\t{text}\n" for i, text in enumerate(TEXTS)).encode(), {"columns": ["id", "text"]}),
    "a.jsonl": ("".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode(), {}),
    "a.parquet": (_parquet(TEXTS), {}),
    "a.tmx": (_tmx(TEXTS), {"text": "de"}),
    "a.po": (str(_catalogue(TEXTS)).encode(), {"text": "msgstr"}),
    "a.mo": (_catalogue(TEXTS).to_binary(), {"text": "msgstr"}),
}
COMPRESSIONS = [".gz", ".bz2", ".xz", ".zst"]


@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
@pytest.mark.parametrize("name", FILES)
def test_every_format_plain_and_compressed(write, read, name, compression):
    content, settings = FILES[name]
    rows = read(write(name + compression, content), **settings)
    assert [row.texts[0] for row in rows] == TEXTS
    assert [row.line for row in rows] == [1, 2, 3, 4]
    assert {row.file for row in rows} == {name + compression}
    if name != "a.tsv":
        assert rows[2].id == f"{name}{compression}:3"


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", FILES)
def test_truncated_file_of_every_format(write, read, name, compression):
    content, settings = FILES[name]
    path = Path(write(name + compression, content))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=rf"{name}.*truncated or corrupt"):
        read(str(path), **settings)


def test_files_of_several_formats_in_one_spec(write, read, tmp_path):
    for name in ("a.txt", "a.jsonl", "a.parquet"):
        write(name, FILES[name][0])
    rows = read([str(tmp_path / "a.*")])
    assert [row.file for row in rows[::4]] == ["a.jsonl", "a.parquet", "a.txt"]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round-trip")


def _back(path: Path, **settings: object) -> list[str]:
    return [row.texts[0] for row in read_rows(CorpusSpec.model_validate({"path": str(path), **settings}))]


@given(st.lists(ANY_TEXT))
def test_text_comes_back(folder: Path, texts: list[str]):
    path = folder / "a.txt"
    path.write_bytes("".join(f"\ufeff{t}\r\n" if i == 0 else f"{t}\r\n" for i, t in enumerate(texts)).encode())
    assert _back(path) == texts


@given(st.lists(ANY_TEXT.filter(lambda text: "\t" not in text)))
def test_tsv_comes_back(folder: Path, texts: list[str]):
    path = folder / "a.tsv"
    path.write_bytes("".join(f"{i}\t{text}\r\n" for i, text in enumerate(texts)).encode())
    assert _back(path, columns=["id", "text"]) == texts


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), st.booleans())
def test_jsonl_comes_back(folder: Path, texts: list[str], ascii_only: bool):
    path = folder / "a.jsonl"
    lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) + "\n" for text in texts]
    path.write_bytes("".join(lines).encode())
    assert _back(path) == texts


@given(st.binary(max_size=60))
def test_any_bytes_give_as_many_rows_as_lines(folder: Path, data: bytes):
    path = folder / "b.txt"
    path.write_bytes(data)
    content = data.removeprefix(b"\xef\xbb\xbf")
    lines = content.split(b"\n")[: None if not content.endswith(b"\n") else -1] if content else []
    assume(foreign(data) is None)
    for policy in ("replace", "skip"):
        assert len(_back(path, invalid_utf8=policy)) == len(lines)
    expected = [line.decode("utf-8", "replace").removesuffix("\r").lstrip("\ufeff") for line in lines]
    assert _back(path, invalid_utf8="replace") == expected
