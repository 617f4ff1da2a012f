"""Model folders that are replaced while they are loaded, or made to hang or to end in a
traceback."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mining.encoder import SentenceEncoder, Tokenizer, load_encoder, model_folder, save_model
from mining.encoder.model_folder import CONFIG_FILE, TABLE_FILE, folder_hash, read_description
from mining.encoder.networks import build_network
from mining.encoder.networks.average import AverageNetwork
from mining.encoder.tokenizers import load_tokenizer
from mining.encoder.tokenizers.pieces import PIECES_FILE
from mining.errors import UsageError
from tests.encoder.conftest import made_up_sentences, random_network, tokenizers_of


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


@pytest.fixture
def other(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> Path:
    """A model with the same units and other vectors."""
    tokenizers = tokenizers_of("sp", all_tokenizers)
    network = random_network("sp", tokenizers)
    network.tables["pieces"].neg_().add_(0.25)
    save_model(tmp_path / "other", network, tokenizers)
    return tmp_path / "other"


def edit(folder: Path, **changes: object) -> None:
    path = folder / CONFIG_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def vectors_of(encoder: SentenceEncoder) -> bytes:
    return encoder.encode(made_up_sentences(20))[0].tobytes()


def replaced_before(read: int, folder: Path, by: Path, in_place: bool, patch: pytest.MonkeyPatch) -> list[str]:
    """Let the folder be replaced before its file number `read` is read; the names of what is
    read."""
    names: list[str] = []

    def watched(reader: Any) -> Any:
        def reading(path: Path, *given: Any) -> Any:
            for name in (CONFIG_FILE, TABLE_FILE, PIECES_FILE) if len(names) == read else ():
                if not in_place:
                    (folder / name).unlink()
                shutil.copyfile(by / name, folder / name)
            names.append(path.name)
            return reader(path, *given)

        return reading

    for name in ("read_buffer", "read_bytes"):
        patch.setattr(model_folder, name, watched(getattr(model_folder, name)))
    return names


@pytest.mark.parametrize("read", [0, 1, 2])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_model_replaced_while_it_is_loaded_is_one_or_the_other_or_none(
    copy: Path, other: Path, read: int, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {encoder.hash: vectors_of(encoder) for encoder in map(load_encoder, (copy, other))}
    assert len(expected) == 2
    names = replaced_before(read, copy, other, in_place, monkeypatch)
    if read == 1:
        # The description is of the first model, the table of the second.
        with pytest.raises(UsageError, match="do not belong together"):
            load_encoder(copy)
    else:
        # Only the vocabulary, which both have, is read after the second exchange.
        encoder = load_encoder(copy)
        assert vectors_of(encoder) == expected[encoder.hash]
    assert names == [CONFIG_FILE, TABLE_FILE, PIECES_FILE]


def test_a_model_replaced_in_place_stays_what_was_loaded(copy: Path, other: Path) -> None:
    before = load_encoder(copy)
    for path in other.iterdir():
        shutil.copyfile(path, copy / path.name)
    assert vectors_of(before) != vectors_of(load_encoder(copy))
    assert load_encoder(copy).hash != before.hash


def test_the_name_of_a_folder_is_of_what_it_holds(copy: Path, other: Path) -> None:
    assert folder_hash(copy) == load_encoder(copy).hash
    shutil.copyfile(other / TABLE_FILE, copy / TABLE_FILE)
    assert folder_hash(copy) not in (read_description(copy).hash, "")
    (copy / TABLE_FILE).unlink()
    with pytest.raises(UsageError, match=r"lacks model\.safetensors"):
        folder_hash(copy)


@pytest.mark.parametrize("name", [CONFIG_FILE, TABLE_FILE, PIECES_FILE])
def test_pipes_are_no_files_of_a_model(copy: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(UsageError, match=name):
        load_encoder(copy)
    with pytest.raises(UsageError, match="not a regular file"):
        model_folder.read_bytes(copy / name)


def unit(**changes: Any) -> dict[str, Any]:
    return {"kind": "pieces", "settings": {}, "files": [PIECES_FILE], **changes}


SETTINGS: list[tuple[str, Any]] = [
    ("dim", float("nan")),
    ("dim", float("inf")),
    ("dim", 12.0),
    ("dim", -12),
    ("dim", 0),
    ("dim", True),
    ("dim", "12"),
    ("network", "average"),
    ("units", {}),
    ("units", []),
    ("units", "pieces"),
    ("units", [1]),
    ("units", [unit(kind=1)]),
    ("units", [unit(settings=[])]),
    ("units", [unit(files=PIECES_FILE)]),
    ("units", [unit(files=[1])]),
    ("units", [unit(), unit(files=["b"])]),
    ("dtype", "int4"),
    ("dtype", []),
    ("shared", "no"),
    ("languages", "aa"),
    ("languages", [1, 2]),
    ("hash", 7),
    ("format_version", "x" * 10_000),
]


@pytest.mark.parametrize(("key", "value"), SETTINGS, ids=[f"{key} {str(value)[:20]}" for key, value in SETTINGS])
def test_settings_that_cannot_be_are_named(copy: Path, key: str, value: Any) -> None:
    edit(copy, **{key: value})
    with pytest.raises(UsageError, match=r"config\.json: ('" + key + "'|names the tokens|format)") as error:
        load_encoder(copy)
    assert len(str(error.value)) < 400


def test_which_half_is_whose_is_part_of_the_name(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = tokenizers_of("sp", all_tokenizers)
    network = random_network("sp", tokenizers, languages=2)
    names = [save_model(tmp_path / "m", network, tokenizers, languages=codes) for codes in (["aa", "bb"], ["bb", "aa"])]
    assert len(set(names)) == 2
    shared = random_network("sp", tokenizers)
    names = [save_model(tmp_path / "s", shared, tokenizers, languages=codes) for codes in (["aa", "bb"], ["bb", "aa"])]
    assert len(set(names)) == 1


def test_tables_of_one_and_of_two_languages_are_not_saved(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = [all_tokenizers[kind] for kind in ("pieces", "words")]
    tables = {unit.kind: torch.ones(unit.size * halves, 3) for unit, halves in zip(tokenizers, (1, 2), strict=True)}
    with pytest.raises(ValueError, match="some tables are of one language, others of two"):
        save_model(tmp_path / "m", AverageNetwork(tables), tokenizers)


def test_languages_kept_apart_have_two_names(copy: Path) -> None:
    edit(copy, shared=False, languages=["aa", "aa"])
    with pytest.raises(UsageError, match="'languages' is"):
        load_encoder(copy)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff", b"7", b'{"format_version": ' + b"9" * 5000 + b"}"])
def test_descriptions_that_cannot_be_are_refused(copy: Path, data: bytes) -> None:
    (copy / CONFIG_FILE).write_bytes(data)
    with pytest.raises(UsageError, match=r"config\.json: not a"):
        load_encoder(copy)


TENSORS: list[tuple[dict[str, torch.Tensor], str]] = [
    ({"pieces": torch.zeros(90)}, "not a table"),
    ({"pieces": torch.zeros(90, 0)}, "not a table"),
    ({"pieces": torch.zeros(90, 12, dtype=torch.float64)}, "not a table"),
    ({"pieces": torch.zeros(90, 12, dtype=torch.bool)}, "not a table"),
    ({"pieces": torch.zeros(90, 12, dtype=torch.int8)}, "says otherwise"),
    ({"pieces.scales": torch.zeros(90)}, "says otherwise"),
    ({"projection": torch.zeros(12, 12, dtype=torch.float64)}, "'projection' is torch.float64"),
    ({"projection": torch.zeros(12)}, "'projection' has shape"),
    ({"projection": torch.zeros(12, 11)}, "'projection' has shape"),
    ({"x" * 10_000: torch.zeros(1)}, "besides the tables"),
    ({"x" * 10_000: torch.zeros(1, 12)}, "besides the tables"),
]


@pytest.mark.parametrize(("changes", "reason"), TENSORS, ids=[str(n) for n in range(len(TENSORS))])
def test_tensors_that_cannot_be_are_named(copy: Path, changes: dict[str, torch.Tensor], reason: str) -> None:
    tensors = {**load_file(copy / TABLE_FILE), **changes}
    save_file(tensors, copy / TABLE_FILE)
    with pytest.raises(UsageError, match=reason) as error:
        load_encoder(copy)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("scales", [torch.ones(89), torch.ones(90, 1), torch.ones(90, dtype=torch.float64)])
def test_scales_are_one_for_each_row(copy: Path, scales: torch.Tensor) -> None:
    rows = len(load_file(copy / TABLE_FILE)["pieces"])
    scales = scales if len(scales) == 89 else scales[:1].expand(rows, *scales.shape[1:]).contiguous()
    tensors = {"pieces": torch.ones(rows, 12, dtype=torch.int8), "pieces.scales": scales}
    save_file(tensors, copy / TABLE_FILE)
    with pytest.raises(UsageError, match="has not a number for each row"):
        load_encoder(copy)


TABLES = {"pieces": torch.zeros(2, 3), "words": torch.zeros(2, 4)}
WEIGHTS = ("bias", "projection")
NETWORKS: list[tuple[dict[str, Any], dict[str, torch.Tensor], str]] = [
    ({"kind": "average", "combine": "sum"}, TABLES, "3 and 4 columns"),
    ({"kind": "average", "combine": "max"}, TABLES, "combine is 'max'"),
    ({"kind": "average"}, TABLES, "combine is None"),
    ({"kind": "charagram", "activation": "relu"}, {}, "activation is 'relu'"),
    ({"kind": "charagram", "activation": "tanh"}, {"ngrams": torch.zeros(2, 3), "bias": torch.zeros(2)}, "'bias'"),
    ({"kind": "charagram", "activation": "tanh"}, {"ngrams": torch.zeros(2, 3)}, "'bias', which is missing"),
    ({"kind": ["average"]}, {}, "no network of kind"),
]


@pytest.mark.parametrize(("settings", "tensors", "reason"), NETWORKS)
def test_networks_that_cannot_be(settings: dict[str, Any], tensors: dict[str, torch.Tensor], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        build_network(
            settings,
            {name: tensor for name, tensor in tensors.items() if name not in WEIGHTS},
            {name: tensor for name, tensor in tensors.items() if name in WEIGHTS},
        )


def test_an_lstm_of_scalars_is_none() -> None:
    names = [f"{a}_{b}_l0{c}" for a in ("weight", "bias") for b in ("ih", "hh") for c in ("", "_reverse")]
    with pytest.raises(ValueError, match="has shape"):
        build_network({"kind": "lstm"}, {"pieces": torch.zeros(2, 3)}, dict.fromkeys(names, torch.tensor(1.0)))


@pytest.mark.parametrize("sizes", [3, [], [2.0], [True], [0], [5], "3", [float("nan")]])
def test_sizes_of_ngrams_that_cannot_be(sizes: Any) -> None:
    with pytest.raises(ValueError, match="sizes are 1 to 4"):
        load_tokenizer("ngrams", {"ngrams.txt": b"ab\n"}, {"sizes": sizes})


def test_names_that_are_not_utf8_are_kept_for_the_reader(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = tokenizers_of("sp", all_tokenizers)
    save_model(tmp_path / "m", random_network("sp", tokenizers), tokenizers, training={"file": "caf\udce9.pt"})
    assert read_description(tmp_path / "m").training == {"file": r"caf\xe9.pt"}
    assert np.isfinite(load_encoder(tmp_path / "m").encode(["bake"])[0]).all()
