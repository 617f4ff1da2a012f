"""Options of loading: fewer dimensions, smaller tables, one language of two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mining.encoder import SentenceEncoder, Tokenizer, load_encoder, model_folder, save_model
from mining.encoder.model import StoredNetwork, StoredTable
from mining.encoder.networks.average import AverageNetwork
from mining.errors import UsageError
from tests.encoder.conftest import ARCHITECTURES, made_up_sentences, random_network, tokenizers_of

TEXTS = [*made_up_sentences(60, seed=9), "", "漢字"]
NAMES = sorted(ARCHITECTURES)


@pytest.fixture(scope="module")
def folders(all_tokenizers: dict[str, Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model folder of each architecture."""
    made = {}
    for name in NAMES:
        made[name] = tmp_path_factory.mktemp(name) / "model"
        tokenizers = tokenizers_of(name, all_tokenizers)
        save_model(made[name], random_network(name, tokenizers), tokenizers)
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [1, 5, 10])
def test_first_dimensions_are_kept_at_length_one(folders: dict[str, Path], name: str, dim: int) -> None:
    whole, valid = load_encoder(folders[name]).encode(TEXTS)
    encoder = load_encoder(folders[name], dim=dim)
    cut, still_valid = encoder.encode(TEXTS)
    expected = whole[valid, :dim] / np.linalg.norm(whole[valid, :dim], axis=1, keepdims=True)
    assert cut.shape == (len(TEXTS), dim)
    assert encoder.dim == dim
    assert valid.tolist() == still_valid.tolist()
    np.testing.assert_allclose(cut[valid], expected, atol=1e-6)


def test_cut_tables_take_less_memory(folders: dict[str, Path]) -> None:
    small = load_encoder(folders["concatenation"], dim=5).network
    assert isinstance(small, AverageNetwork)
    assert {name: table.shape[1] for name, table in small.tables.items()} == {"pieces": 5}
    wide = load_encoder(folders["concatenation"], dim=15).network
    assert {name: table.shape[1] for name, table in wide.tables.items()} == {"pieces": 12, "trigrams": 3}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "near"), [("float16", 2e-3), ("int8", 4e-2)])
def test_small_tables_change_vectors_little(folders: dict[str, Path], name: str, dtype: str, near: float) -> None:
    whole, valid = load_encoder(folders[name]).encode(TEXTS)
    encoder = load_encoder(folders[name], dtype=dtype)
    small, still_valid = encoder.encode(TEXTS)
    assert valid.tolist() == still_valid.tolist()
    np.testing.assert_allclose(small, whole, atol=near)
    assert small.tobytes() != whole.tobytes()
    parts = [encoder.encode(TEXTS[start : start + 7], threads=2)[0] for start in range(0, len(TEXTS), 7)]
    assert np.concatenate(parts).tobytes() == small.tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_model_saved_small_is_the_model_loaded_small(
    folders: dict[str, Path], name: str, dtype: str, all_tokenizers: dict[str, Tokenizer], tmp_path: Path
) -> None:
    tokenizers = tokenizers_of(name, all_tokenizers)
    saved = save_model(tmp_path / "small", random_network(name, tokenizers), tokenizers, dtype=dtype)
    expected, _ = load_encoder(folders[name], dtype=dtype).encode(TEXTS)
    for asked in ("float32", dtype):
        encoder = load_encoder(tmp_path / "small", dtype=asked)
        assert encoder.hash == saved
        assert encoder.encode(TEXTS)[0].tobytes() == expected.tobytes()
    cut, _ = load_encoder(tmp_path / "small", dim=4).encode(TEXTS)
    assert cut.tobytes() == load_encoder(folders[name], dtype=dtype, dim=4).encode(TEXTS)[0].tobytes()
    assert (tmp_path / "small" / "model.safetensors").stat().st_size < (
        folders[name] / "model.safetensors"
    ).stat().st_size


def test_tables_stay_small_in_memory(folders: dict[str, Path]) -> None:
    network = load_encoder(folders["sp"], dtype="int8").network
    assert isinstance(network, StoredNetwork)
    assert network.tables["pieces"].values.dtype == torch.int8


def test_options_that_change_vectors_change_the_hash(folders: dict[str, Path]) -> None:
    folder = folders["sp"]
    hashes = [load_encoder(folder, dim=dim, dtype=dtype).hash for dim in (None, 4) for dtype in ("float32", "int8")]
    assert len(set(hashes)) == 4
    assert load_encoder(folder, dim=12, language="xx").hash == hashes[0]


@pytest.mark.parametrize("dim", [0, -1, 13])
def test_dimension_that_cannot_be_names_both_numbers(folders: dict[str, Path], dim: int) -> None:
    with pytest.raises(UsageError, match=f"dim {dim}: .* have 12 dimensions"):
        load_encoder(folders["sp"], dim=dim)


def test_unknown_type_is_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="dtype 'int4': tables are kept as float32, float16, int8"):
        load_encoder(folders["sp"], dtype="int4")


def test_int8_is_symmetric_with_a_scale_for_each_row() -> None:
    table = torch.tensor([[1.0, -2.54, 0.0], [0.0, 0.0, 0.0], [1e-3, 0.0, -5e-4]])
    stored = StoredTable(table).converted("int8")
    assert stored.values.tolist() == [[50, -127, 0], [0, 0, 0], [127, 0, -64]]
    torch.testing.assert_close(stored.take(slice(None)), table, atol=0.011, rtol=0.01)
    assert stored.take(torch.tensor([2])).tolist() == stored.take(slice(2, 3)).tolist()


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_tables_are_converted_alike_in_chunks_of_any_size(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = StoredTable(torch.arange(21.0).reshape(7, 3) - 9)
    whole = table.converted(dtype)
    monkeypatch.setattr("mining.encoder.model._CHUNK_ROWS", 3)
    parts = table.converted(dtype)
    assert torch.equal(parts.values, whole.values)
    if whole.scales is not None and parts.scales is not None:
        assert torch.equal(parts.scales, whole.scales)
        assert whole.scales.tolist() == (table.values.abs().amax(1) / 127).tolist()


def test_vectors_too_long_for_float16_are_an_error(encoder: SentenceEncoder) -> None:
    with pytest.raises(UsageError, match="too long for float16"):
        StoredTable(torch.tensor([[70000.0]])).converted("float16")


@pytest.fixture(scope="module")
def apart(all_tokenizers: dict[str, Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a table for each of two languages."""
    folder = tmp_path_factory.mktemp("apart") / "model"
    tokenizers = tokenizers_of("sum", all_tokenizers)
    save_model(folder, random_network("sum", tokenizers, languages=2), tokenizers, languages=["aa", "bb"])
    return folder


@pytest.mark.parametrize(("language", "place"), [("aa", 0), ("bb", 1)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_each_language_has_its_half_of_the_tables(
    apart: Path, all_tokenizers: dict[str, Tokenizer], language: str, place: int, dtype: str
) -> None:
    tokenizers = tokenizers_of("sum", all_tokenizers)
    whole = random_network("sum", tokenizers, languages=2)
    half = {
        tokenizer.kind: table[place * tokenizer.size : (place + 1) * tokenizer.size]
        for tokenizer, table in zip(tokenizers, whole.tables.values(), strict=True)
    }
    expected, _ = SentenceEncoder(AverageNetwork(half), tokenizers, "half").encode(TEXTS)
    found, _ = load_encoder(apart, dtype=dtype, language=language).encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-6 if dtype == "float32" else 4e-2)


def test_language_is_asked_for_where_it_matters(apart: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match=r"each language has its own parameters: say .* aa or bb"):
        load_encoder(apart)
    with pytest.raises(UsageError, match="language 'cc': this model knows aa or bb"):
        load_encoder(apart, language="cc")
    assert load_encoder(apart, language="aa").hash != load_encoder(apart, language="bb").hash


def test_languages_without_names_are_source_and_target(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = tokenizers_of("sp", all_tokenizers)
    save_model(tmp_path / "model", random_network("sp", tokenizers, languages=2), tokenizers)
    load_encoder(tmp_path / "model", language="target")
    with pytest.raises(UsageError, match="source or target"):
        load_encoder(tmp_path / "model")


def test_no_model_means_the_bundled_one(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", folders["sp"])
    assert load_encoder(None).hash == load_encoder(folders["sp"]).hash
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", folders["sp"] / "absent")
    with pytest.raises(UsageError, match="this installation comes without one"):
        load_encoder(None)
