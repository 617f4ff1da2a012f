from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mining.encoder import SentenceEncoder, Tokenizer, load_encoder, save_model
from mining.encoder.model_folder import read_description
from mining.encoder.networks.average import AverageNetwork
from mining.errors import UsageError
from tests.encoder.conftest import ARCHITECTURES, made_up_sentences, random_network, tokenizers_of


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def table_of(encoder: SentenceEncoder) -> torch.Tensor:
    return encoder.network.tables["pieces"]  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_comes_back_as_it_was(
    name: str, all_tokenizers: dict[str, Tokenizer], tmp_path: Path
) -> None:
    tokenizers = tokenizers_of(name, all_tokenizers)
    network = random_network(name, tokenizers)
    saved = save_model(tmp_path / "model", network, tokenizers, languages=["aa", "bb"], training={"steps": 3})
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"config.json", "model.safetensors", *read_description(tmp_path / "model").files()} == files
    loaded = load_encoder(tmp_path / "model")
    texts = [*made_up_sentences(40, seed=5), "", "漢字"]
    before, valid = SentenceEncoder(network, tokenizers, "before").encode(texts)
    after, still_valid = loaded.encode(texts)
    assert (loaded.hash, loaded.dim) == (saved, network.dim)
    assert loaded.description.training == {"steps": 3}
    assert after.tobytes() == before.tobytes()
    assert valid.tolist() == still_valid.tolist()


def test_hash_is_the_same_on_every_writing(model: Path, tmp_path: Path) -> None:
    first = load_encoder(model)
    again = save_model(tmp_path / "again", AverageNetwork({"pieces": table_of(first)}), first.tokenizers)
    assert again == first.hash
    other = save_model(tmp_path / "other", AverageNetwork({"pieces": table_of(first) + 1}), first.tokenizers)
    assert other != first.hash


def test_tables_that_do_not_fit_the_units_are_not_saved(model: Path, tmp_path: Path) -> None:
    encoder = load_encoder(model)
    with pytest.raises(ValueError, match="has 7 rows for"):
        save_model(tmp_path / "model", AverageNetwork({"pieces": torch.ones(7, 3)}), encoder.tokenizers)
    with pytest.raises(ValueError, match="tables words with tokens pieces"):
        save_model(tmp_path / "model", AverageNetwork({"words": torch.ones(7, 3)}), encoder.tokenizers)
    assert not (tmp_path / "model").exists()


def test_training_summary_does_not_change_the_hash(copy: Path) -> None:
    before = load_encoder(copy).hash
    edit(copy, training={"steps": 7}, languages=["xx"])
    assert load_encoder(copy).hash == before


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: no such model folder"):
        load_encoder(tmp_path / "absent")


@pytest.mark.parametrize("name", ["model.safetensors", "sentencepiece.model", "config.json"])
def test_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(UsageError, match=f"it lacks {name}"):
        load_encoder(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "sentencepiece.model", "config.json"])
def test_truncated_file_is_named(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageError, match=name):
        load_encoder(copy)


def test_rows_that_do_not_fit_the_vocabulary_name_both_numbers(copy: Path) -> None:
    save_file({"pieces": torch.ones((7, 12))}, copy / "model.safetensors")
    with pytest.raises(
        UsageError, match=r"model\.safetensors: 7 rows of pieces, but .*sentencepiece\.model ask for \d+"
    ):
        load_encoder(copy)


def test_another_dimension_names_both_numbers(copy: Path) -> None:
    edit(copy, dim=300)
    with pytest.raises(UsageError, match=r"dimension 12, but .*config\.json says dim 300"):
        load_encoder(copy)


def test_tables_of_one_language_are_not_taken_for_two(copy: Path) -> None:
    size = load_encoder(copy).tokenizers[0].size
    edit(copy, shared=False)
    with pytest.raises(UsageError, match=rf"{size} rows of pieces, but .*ask for {2 * size}"):
        load_encoder(copy, language="aa")


def test_table_of_another_training_is_caught_by_the_hash(copy: Path) -> None:
    encoder = load_encoder(copy)
    save_file({"pieces": table_of(encoder) + 1}, copy / "model.safetensors")
    with pytest.raises(UsageError, match="do not belong together"):
        load_encoder(copy)


def test_changed_setting_is_caught_by_the_hash(copy: Path) -> None:
    edit(copy, network={"kind": "average", "combine": "concatenate"})
    with pytest.raises(UsageError, match="do not belong together"):
        load_encoder(copy)


@pytest.mark.parametrize("version", [1, 3])
def test_other_formats_are_refused(copy: Path, version: int) -> None:
    edit(copy, format_version=version)
    with pytest.raises(UsageError, match=f"format {version}, but this version reads format 2; train it again"):
        load_encoder(copy)


def test_unknown_network_is_refused(copy: Path) -> None:
    edit(copy, network={"kind": "transformer"})
    with pytest.raises(UsageError, match="no network of kind 'transformer' is known"):
        load_encoder(copy)


def test_files_outside_the_folder_are_not_read(copy: Path) -> None:
    tokenizers = [{"kind": "pieces", "settings": {}, "files": ["../sentencepiece.model"]}]
    edit(copy, units=tokenizers)
    with pytest.raises(UsageError, match="which cannot be"):
        load_encoder(copy)


def test_vocabulary_cut_short_at_a_line_is_noticed(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = tokenizers_of("word", all_tokenizers)
    save_model(tmp_path / "model", random_network("word", tokenizers), tokenizers)
    path = tmp_path / "model" / "words.txt"
    path.write_bytes(path.read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    with pytest.raises(UsageError, match=r"65 rows of words, but .*words\.txt ask for 64"):
        load_encoder(tmp_path / "model")


def test_foreign_tensor_is_refused(copy: Path) -> None:
    save_file({"weights": torch.ones((3, 3))}, copy / "model.safetensors")
    with pytest.raises(UsageError, match="holds weights, not the table 'pieces'"):
        load_encoder(copy)


@pytest.mark.parametrize("device", ["tpu", "nonsense"])
def test_unknown_device_is_refused(model: Path, device: str) -> None:
    with pytest.raises(UsageError, match=device):
        load_encoder(model, device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_same_directions(model: Path) -> None:
    texts = ["bake lomi", "", "nuti sora bake"]
    here, valid = load_encoder(model).encode(texts)
    there, also_valid = load_encoder(model, "cuda").encode(texts)
    assert valid.tolist() == also_valid.tolist()
    assert abs(here - there).max() < 1e-6
