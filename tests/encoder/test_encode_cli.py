from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mining.encoder import SentenceEncoder, load_encoder, model_folder, read_vectors, vector_file
from mining.errors import InputError, UsageError
from pipelines.cli.commands.encode import encode
from tests.cli.runner import runner

run = runner(encode)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.tsv"
    path.write_bytes("a\tbake lomi\r\nb\t\nc\tnu\u2028ti\nd\tsora\n".encode())
    return path


@pytest.mark.parametrize("name", ["v.npy", "v.parquet"])
@pytest.mark.parametrize("rows", [1, 3, 8192])
def test_every_row_gets_a_row(
    corpus: Path, model: Path, encoder: SentenceEncoder, name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_file, "BLOCK_ROWS", rows)
    out = corpus.parent / name
    result = run(corpus, "--columns", "id,text", "-m", model, "-o", out)
    last = result.stdout.strip().rsplit("\n", 1)[-1]
    assert last == f"4 rows, 1 invalid (1 blank), dimension 12, in {out}"
    back = read_vectors(out, model_hash=encoder.hash)
    assert back.ids[0] == "a"
    assert back.ids[2:] == ["c", "d"]
    assert back.valid.tolist() == [True, False, True, True]
    expected, _ = encoder.encode(["bake lomi", "", "nu\u2028ti", "sora"])
    assert np.asarray(back.vectors).tobytes() == expected.tobytes()


def test_half_precision(corpus: Path, model: Path) -> None:
    out = corpus.parent / "v.npy"
    run(corpus, "--columns", "id,text", "-m", model, "-o", out, "--dtype", "float16")
    assert read_vectors(out).vectors.dtype == np.float16


def test_settings_from_a_file_and_a_flag_over_them(corpus: Path, model: Path) -> None:
    out = corpus.parent / "v.npy"
    settings = corpus.parent / "encode.yaml"
    settings.write_text(f"input: {{path: {corpus}, columns: [id, text]}}\nmodel: nowhere\nout: {out}\n")
    assert "4 rows" in run("--config", settings, "--model", model).stdout


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"-m": "absent"}, "no such model folder"),
        ({"-o": "absent/v.npy"}, "does not exist"),
        ({"-o": "v.raw"}, r"\.npy or \.parquet"),
        ({"--text": "words"}, "no column 'words'"),
        ({"--dtype": "int8"}, "dtype"),
        ({"--table-dtype": "int4"}, "--table-dtype: Input should be"),
        ({"--dim": "13"}, "dim 13: .* have 12 dimensions"),
        ({"--dim": "0"}, "dim"),
    ],
)
def test_bad_usage_says_what_is_wrong(
    corpus: Path, model: Path, changes: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus.parent)
    flags = {"-m": str(model), "-o": "v.npy", "--columns": "id,text", **changes}
    with pytest.raises(UsageError, match=message):
        run(corpus, *[part for pair in flags.items() for part in pair])


def test_without_a_model_the_bundled_one_is_used(
    corpus: Path, model: Path, encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", model)
    run(corpus, "--columns", "id,text", "-o", tmp_path / "v.npy")
    assert read_vectors(tmp_path / "v.npy").model_hash == encoder.hash
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", tmp_path / "absent")
    with pytest.raises(UsageError, match="no model is named, and this installation comes without one"):
        run(corpus, "--columns", "id,text", "-o", tmp_path / "w.npy")


def test_smaller_vectors_from_smaller_tables(corpus: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    last = run(corpus, "--columns", "id,text", "-m", model, "-o", out, "--dim", 5, "--table-dtype", "int8").stdout
    assert "dimension 5" in last
    small = load_encoder(model, dim=5, dtype="int8")
    back = read_vectors(out, model_hash=small.hash)
    assert np.asarray(back.vectors).tobytes() == small.encode(["bake lomi", "", "nu\u2028ti", "sora"])[0].tobytes()


@pytest.mark.parametrize(("content", "message"), [("", "not a single row"), ("\n\n", r"none of its 2 rows .*2 blank")])
def test_input_without_text_leaves_no_file(tmp_path: Path, model: Path, content: str, message: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        run(path, "-m", model, "-o", tmp_path / "v.npy")
    assert [left.name for left in tmp_path.iterdir()] == ["corpus.txt"]


def test_help_has_examples() -> None:
    assert "bitext encode --model" in run("--help").stdout


def test_the_input_is_not_overwritten(tmp_path, model):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mining.config.encode import EncodeConfig
    from mining.encoder.vector_file import encode_corpus
    from mining.errors import UsageError

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a"], "text": ["ba ke"]}), path)
    before = path.read_bytes()
    config = EncodeConfig.model_validate({"model": str(model), "input": str(path), "out": str(path)})
    with pytest.raises(UsageError, match="is the input as well: name another output"):
        encode_corpus(config)
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_names_that_are_no_utf8(tmp_path: Path, model: Path, suffix: str) -> None:
    path, out = tmp_path / "caf\udce9.txt", tmp_path / f"v\udcff{suffix}"
    path.write_bytes(b"bake lomi\n")
    last = run(path, "-m", model, "-o", out).stdout
    assert "1 rows, 0 invalid" in last
    assert read_vectors(out).ids == ["caf\\xe9.txt:1"]


def test_replaced_bytes_are_counted_and_nothing_else_is_on_a_pipe(tmp_path: Path, model: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"bake lomi\nnu\xff\n\xff sora \xff\n")
    result = run(path, "-m", model, "-o", tmp_path / "v.npy", "--invalid-utf8", "replace")
    assert "3 rows, 0 invalid, 2 with U+FFFD for bytes that are no UTF-8, dimension 12" in result.stdout
    assert "rows/s" not in result.stderr
    assert "U+FFFD" not in run(path, "-m", model, "-o", tmp_path / "v.npy", "--invalid-utf8", "skip").stdout


@pytest.mark.parametrize("rows", [2, 3, 8192])
def test_blocks_and_reasons_do_not_depend_on_the_files(
    tmp_path: Path, model: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_file, "BLOCK_ROWS", rows)
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    for path, text in zip(paths, ("bake lomi\n\nnuti\n", "sora\n", "x" * 50 + "\nlomi"), strict=True):
        path.write_text(text)
    result = run(*paths, "-m", model, "-o", tmp_path / "v.npy", "--max-chars", 40)
    assert "6 rows, 2 invalid (1 blank, 1 too_long)" in result.stdout
    back = read_vectors(tmp_path / "v.npy")
    assert back.valid.tolist() == [True, False, True, True, False, True]
    assert back.ids == ["a.txt:1", "a.txt:2", "a.txt:3", "b.txt:1", "c.txt:1", "c.txt:2"]
