from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mining.encoder import load_encoder, save_model
from mining.errors import UsageError


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_hash_is_the_same_on_every_writing(model: Path, tmp_path: Path, pieces_model: bytes) -> None:
    first = load_encoder(model)
    again = save_model(tmp_path / "again", first.table, pieces_model, lowercase=True)  # type: ignore[attr-defined]
    assert again == first.hash
    other = save_model(tmp_path / "other", first.table + 1, pieces_model, lowercase=True)  # type: ignore[attr-defined]
    assert other != first.hash


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
    save_file({"piece_vectors": torch.ones((7, 12))}, copy / "model.safetensors")
    with pytest.raises(UsageError, match=r"model\.safetensors has 7 rows but .*sentencepiece\.model has \d+ pieces"):
        load_encoder(copy)


def test_another_dimension_names_both_numbers(copy: Path) -> None:
    edit(copy, dim=300)
    with pytest.raises(UsageError, match=r"dimension 12 but .*config\.json says dim 300"):
        load_encoder(copy)


def test_another_vocabulary_size_names_both_numbers(copy: Path) -> None:
    edit(copy, vocabulary=5)
    with pytest.raises(UsageError, match=r"rows but .*config\.json says vocabulary 5"):
        load_encoder(copy)


def test_table_of_another_training_is_caught_by_the_hash(copy: Path) -> None:
    encoder = load_encoder(copy)
    save_file({"piece_vectors": encoder.table + 1}, copy / "model.safetensors")  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="do not belong together"):
        load_encoder(copy)


def test_changed_setting_is_caught_by_the_hash(copy: Path) -> None:
    edit(copy, lowercase=False)
    with pytest.raises(UsageError, match="do not belong together"):
        load_encoder(copy)


def test_newer_format_is_refused(copy: Path) -> None:
    edit(copy, format_version=2)
    with pytest.raises(UsageError, match="format 2 of kind sp, but this version reads format 1"):
        load_encoder(copy)


def test_foreign_tensor_is_refused(copy: Path) -> None:
    save_file({"weights": torch.ones((3, 3))}, copy / "model.safetensors")
    with pytest.raises(UsageError, match="holds weights, not the table"):
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
