"""``bitext convert`` on released models and on model folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from mining.encoder import SentenceEncoder, load_encoder, save_model
from mining.encoder.psp import read_psp
from tests.encoder.conftest import made_up_sentences, random_network, tokenizers_of
from tests.encoder.psp import rendering
from tests.encoder.psp.conftest import checkpoint

TEXTS = ["bake lomi", "Ba 漢字, don't!", "💡", *made_up_sentences(20, seed=9)]


@pytest.mark.parametrize("options", [{}, {"model": "lstm"}, {"zero_unk": 0, "lower_case": 0}])
def test_checkpoint_becomes_a_model_folder(
    options: dict[str, int],
    bitext: Callable,
    saved: Callable[..., Path],
    vocabulary: dict[str, int],
    pieces_file: Path,
    tmp_path: Path,
) -> None:
    path, folder = saved(checkpoint(vocabulary, **options)), tmp_path / "model"
    ended = bitext("convert", path, "--sentencepiece", pieces_file, "--output", folder, "--languages", "en,fr")
    assert ended.code == 0, ended.err
    assert ended.last_line.startswith("at-scale model of ")
    assert ended.last_line.endswith(f" in {folder}")
    released = read_psp(path, pieces_file)
    expected, _ = SentenceEncoder(released.network, [released.tokenizer], "hash").encode(TEXTS)
    found, valid = load_encoder(folder).encode(TEXTS)
    assert valid.all()
    np.testing.assert_array_equal(found, expected)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["languages"] == ["en", "fr"]
    assert config["training"]["arguments"]["hidden_dim"] == 5
    assert config["hash"] in ended.last_line


def test_languages_apart_stay_apart(
    bitext: Callable,
    saved: Callable[..., Path],
    vocabulary: dict[str, int],
    pieces_file: Path,
    sp: sentencepiece.SentencePieceProcessor,
    tmp_path: Path,
) -> None:
    second = {name: row for row, name in enumerate(["x", *sorted(vocabulary)])}
    data, folder = checkpoint(vocabulary, second, share_vocab=0), tmp_path / "model"
    flags = ["--sentencepiece", pieces_file, "--languages", "en,fr", "--output", folder]
    assert "the languages apart" in bitext("convert", saved(data), *flags).last_line
    text = "bake lomi"
    for language, rows, key in (("en", vocabulary, "embedding.weight"), ("fr", second, "embedding_fr.weight")):
        found = load_encoder(folder, language=language).encode([text])[0][0]
        ids = rendering.at_scale_rows(text, sp, rows, data["args"])
        expected = rendering.unit_length(rendering.averaged(data["state_dict"], ids, key))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_hub_folder_in_float16(bitext: Callable, hub_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    ended = bitext("convert", hub_folder(), "--output", folder, "--dtype", "float16", "--dim", 4)
    assert ended.code == 0, ended.err
    encoder = load_encoder(folder)
    assert encoder.dim == 4
    assert encoder.description.dtype == "float16"
    released = read_psp(tmp_path / "hub")
    expected = released.network.vectors([released.tokenizer(TEXTS)])[:, :4]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS)[0], expected, atol=2e-3)


@pytest.mark.parametrize("name", ["sp", "sum", "concatenation", "projection", "charagram"])
@pytest.mark.parametrize(("dtype", "loss"), [("float32", 1e-6), ("float16", 2e-3), ("int8", 4e-2)])
def test_model_becomes_smaller(
    name: str, dtype: str, loss: float, bitext: Callable, all_tokenizers: dict, tmp_path: Path
) -> None:
    tokenizers = tokenizers_of(name, all_tokenizers)
    save_model(tmp_path / "model", random_network(name, tokenizers), tokenizers, languages=["aa", "bb"])
    ended = bitext(
        "convert", tmp_path / "model", "--dim", 5, "--dtype", dtype, "--output", tmp_path / "small", "--to", "model"
    )
    assert ended.code == 0, ended.err
    assert ended.last_line.endswith(f"in {tmp_path / 'small'}")
    whole, small = load_encoder(tmp_path / "model", dim=5), load_encoder(tmp_path / "small")
    assert small.dim == 5
    assert small.description.training["made_from"]["model"] == load_encoder(tmp_path / "model").hash
    assert small.description.languages == ["aa", "bb"]
    texts = made_up_sentences(30, seed=11)
    np.testing.assert_allclose(small.encode(texts)[0], whole.encode(texts)[0], atol=loss)


def test_what_has_no_meaning_is_refused(bitext: Callable, model: Path, tmp_path: Path) -> None:
    out = ["--output", tmp_path / "out"]
    for flags, message in (
        (["convert", tmp_path / "none", *out], "no such file or folder"),
        (["convert", tmp_path, *out], "neither a P-SP model"),
        (["convert", model, *out], "say what to make smaller with --dtype or --dim"),
        (["convert", model, "--dim", 99, *out], "have 12 dimensions, keep 1 to 12"),
        (["convert", model, "--dtype", "int4", *out], "--dtype: Input should be 'float32'"),
        (["convert", model, "--dim", 3, "--to", "hdf5", *out], "becomes model, not hdf5"),
        (["convert", model, "--dim", 3, "--to", "onnx", *out], "--to: Input should be 'model', 'prepared' or 'hdf5'"),
        (["convert", model, "--dim", 3, "--sentencepiece", "x", *out], "--sentencepiece has no meaning"),
        (["convert", model, "--dim", 3, "--output", model], "is the source as well"),
        (["convert", model, "--dim", 3, "--output", model.parent], "is not empty"),
    ):
        ended = bitext(*flags)
        assert (ended.code, message in ended.err) == (2, True), ended.err
    assert not (tmp_path / "out").exists()


def test_lstm_keeps_its_dimensions(bitext: Callable, all_tokenizers: dict, tmp_path: Path) -> None:
    tokenizers = tokenizers_of("lstm", all_tokenizers)
    save_model(tmp_path / "model", random_network("lstm", tokenizers), tokenizers)
    ended = bitext("convert", tmp_path / "model", "--dim", 3, "--output", tmp_path / "out")
    assert (ended.code, "keeps all its dimensions" in ended.err) == (2, True)


def test_overwrite(
    bitext: Callable, saved: Callable[..., Path], vocabulary: dict[str, int], pieces_file: Path, tmp_path: Path
) -> None:
    path, folder = saved(checkpoint(vocabulary)), tmp_path / "model"
    flags = ["convert", path, "--sentencepiece", pieces_file, "--output", folder]
    first = bitext(*flags)
    assert bitext(*flags).code == 2
    again = bitext(*flags, "--overwrite")
    assert (again.code, again.last_line) == (0, first.last_line)


def test_a_dangerous_file_ends_in_one_line(bitext: Callable, tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "vocab": torch.nn.Linear(1, 1)}, tmp_path / "model.pt")
    ended = bitext("convert", tmp_path / "model.pt", "--output", tmp_path / "out")
    assert ended.code == 2
    assert "asks for torch.nn.modules.linear.Linear" in ended.err


def test_help_has_examples(bitext: Callable) -> None:
    ended = bitext("convert", "--help")
    assert "bitext convert model.para.lc.100.pt --sentencepiece" in " ".join(ended.out.split())
