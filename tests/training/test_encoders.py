"""Every kind of encoder and objective: trained, saved, loaded, and mined with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mining.api import mine
from mining.encoder import load_encoder
from mining.encoder.model_folder import read_description
from mining.errors import UsageError
from mining.training import Progress, TrainConfig, train
from mining.training.data import DataConfig, prepare

ENCODERS: dict[str, dict[str, Any]] = {
    "pieces": {},
    "words": {"units": "words"},
    "trigrams": {"units": ["trigrams"]},
    "sum": {"units": ["pieces", "words"]},
    "concatenation": {"units": ["pieces", "words", "trigrams"], "combine": "concatenate", "dim": 8},
    "projection": {"projection": 12},
    "charagram": {"encoder": "charagram"},
    "linear charagram": {"encoder": "charagram", "activation": "linear"},
    "lstm over words": {"encoder": "lstm", "units": "words", "hidden": 8, "scramble": 0.3, "epochs": 14},
    "lstm over pieces": {"encoder": "lstm", "hidden": 8, "epochs": 10},
    "languages apart": {"shared": False, "languages": ["aa", "bb"]},
    "languages apart over two units": {"shared": False, "languages": ["aa", "bb"], "units": ["pieces", "words"]},
}
DIMS = {"concatenation": 24, "projection": 12}
#: Finding pieces that spell a word is slow to learn; by chance one pair of 80 is found.
LEAST_FOUND = {"lstm over pieces": 0.1}

OBJECTIVES: dict[str, dict[str, Any]] = {
    "hardest": {},
    "mix": {"negative_choice": "mix"},
    "random": {"negative_choice": "random"},
    "paraphrases": {"negative_pool": "monolingual"},
    "no mask": {"mask_duplicates": False},
    "softmax": {"objective": "softmax", "additive_margin": 0.1},
    "softmax with negatives": {"objective": "softmax", "negatives": 2},
    "j_bi": {"objective": "j_bi", "negatives": 5, "l2": 1e-5},
    "j_bi on both sides": {"objective": "j_bi", "negatives": 5, "negative_pool": "monolingual"},
}


def texts(bitext: Path) -> tuple[list[str], list[str]]:
    lines = [line.split("\t") for line in bitext.read_text().rstrip("\n").split("\n")][:80]
    return [line[0] for line in lines], [line[1] for line in lines]


def trained(settings: dict[str, Any], changes: dict[str, Any]) -> tuple[Path, list[float]]:
    """The model folder, and the running mean of the loss after each step."""
    losses: list[float] = []

    def report(progress: Progress) -> None:
        if progress.stage == "vectors":
            losses.append(progress.loss)

    merged = {**settings, "epochs": 8, "learning_rate": 0.03, "anneal": 0, **changes}
    return train(TrainConfig.model_validate(merged), report), losses


def share_found(folder: Path, bitext: Path, languages: tuple[str | None, str | None]) -> float:
    """The share of the translations that mining finds."""
    source, target = texts(bitext)
    encoders = [load_encoder(folder, language=language) for language in languages]
    pairs = mine(source, target[::-1], encoders[0], target_encoder=encoders[1], threads=1)
    found = zip(pairs["source_id"].to_pylist(), pairs["target_id"].to_pylist(), strict=True)
    return float(np.mean([int(one) + int(other) == len(source) - 1 for one, other in found]))


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder_is_trained_saved_loaded_and_mined_with(name: str, settings: dict[str, Any], bitext: Path) -> None:
    folder, losses = trained(settings, ENCODERS[name])
    assert losses[-1] < 0.8 * losses[0]
    languages = ("aa", "bb") if "apart" in name else (None, None)
    assert share_found(folder, bitext, languages) > LEAST_FOUND.get(name, 0.6)
    encoder = load_encoder(folder, language=languages[0])
    vectors, valid = encoder.encode(texts(bitext)[0], 1)
    assert vectors.shape == (80, DIMS.get(name, 16))
    assert valid.all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objective_lowers_its_loss_and_finds_translations(name: str, settings: dict[str, Any], bitext: Path) -> None:
    folder, losses = trained(settings, OBJECTIVES[name])
    assert losses[-1] < 0.7 * losses[0]
    assert share_found(folder, bitext, (None, None)) > 0.6


def test_without_an_objective_the_encoder_is_random(settings: dict[str, Any], bitext: Path) -> None:
    folder, losses = trained(settings, {"objective": "none"})
    assert losses == []
    assert read_description(folder).training["steps"] == 0
    assert not (folder / "curves").exists()
    vectors, valid = load_encoder(folder).encode(texts(bitext)[0])
    assert valid.all()
    assert abs((vectors @ vectors.T)[np.triu_indices(80, 1)]).mean() < 0.6


def test_prepared_and_given_bitexts_make_the_same_model(settings: dict[str, Any], tmp_path: Path) -> None:
    data = {
        "bitext": {**settings.pop("bitext"), "domain": "domain"},
        "vocabulary": settings.pop("vocabulary"),
        "units": ["words", "pieces"],
        "domains": [{"match": "rare", "weight": 2.0}],
        "filters": {"min_tokens": 4},
    }
    inline = train(TrainConfig.model_validate({**settings, **data, "model": str(tmp_path / "inline")}))
    prepare(DataConfig.model_validate(data), tmp_path / "pairs", threads=1)
    config = {**settings, "prepared": str(tmp_path / "pairs"), "model": str(tmp_path / "prepared")}
    prepared = train(TrainConfig.model_validate(config))
    for path in inline.iterdir():
        if path.is_file() and path.name != "config.json":
            assert path.read_bytes() == (prepared / path.name).read_bytes(), path.name
    configs = [read_description(folder).model_dump() for folder in (inline, prepared)]
    # One training is named by the bytes of its bitext, the other by those of the prepared arrays.
    names = [config["training"].pop("identity") for config in configs]
    assert names[0] != names[1]
    assert configs[0] == configs[1]
    summary = configs[1]["training"]
    assert {domain["name"]: domain["weight"] for domain in summary["data"]["domains"]} == {"common": 1.0, "rare": 2.0}
    kept = {domain["name"]: domain["pairs"] for domain in summary["data"]["domains"]}
    assert summary["pairs_seen"] == 3 * (kept["common"] + 2 * kept["rare"])


def test_prepared_units_that_do_not_fit_the_encoder_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    prepare(DataConfig.model_validate({"bitext": settings["bitext"], "units": ["trigrams"]}), tmp_path / "pairs")
    config = {"prepared": str(tmp_path / "pairs"), "model": str(tmp_path / "model"), "encoder": "lstm"}
    with pytest.raises(UsageError, match=r"pairs: kind: lstm works on tokens: \[pieces\]"):
        train(TrainConfig.model_validate(config))
    config |= {"encoder": "average", "epochs": 1, "dim": 4}
    assert load_encoder(train(TrainConfig.model_validate(config))).dim == 4


def test_units_are_chosen_among_the_prepared_ones(settings: dict[str, Any], tmp_path: Path) -> None:
    data = {"bitext": settings["bitext"], "vocabulary": settings["vocabulary"], "units": ["pieces", "words"]}
    prepare(DataConfig.model_validate(data), tmp_path / "pairs")
    config = {"prepared": str(tmp_path / "pairs"), "epochs": 1, "dim": 4, "model": str(tmp_path / "words")}
    folder = train(TrainConfig.model_validate({**config, "units": ["words"]}))
    assert [one.kind for one in read_description(folder).tokenizers] == ["words"]
    with pytest.raises(UsageError, match="holds a model of another configuration"):
        train(TrainConfig.model_validate({**config, "units": ["pieces"]}))
    both = train(TrainConfig.model_validate({**config, "model": str(tmp_path / "both")}))
    assert [one.kind for one in read_description(both).tokenizers] == ["pieces", "words"]
    with pytest.raises(UsageError, match="with the tokens pieces, words, not with trigrams"):
        train(TrainConfig.model_validate({**config, "units": ["trigrams"], "model": str(tmp_path / "none")}))


def test_settings_of_the_data_are_refused_beside_prepared_pairs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lowercase, vocabulary: decided when pairs was prepared"):
        TrainConfig.model_validate({"prepared": "pairs", "model": "m", "vocabulary": 9000, "lowercase": False})


def word_vectors(bitext: Path, path: Path) -> dict[str, np.ndarray]:
    words = sorted({word for side in texts(bitext) for text in side for word in text.split()})
    chance = np.random.default_rng(0)
    vectors = {word: chance.standard_normal(4).astype(np.float32).round(3) for word in words}
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()))
    return vectors


def test_initial_vectors_and_the_pull_towards_them(settings: dict[str, Any], bitext: Path, tmp_path: Path) -> None:
    vectors = word_vectors(bitext, tmp_path / "vectors.txt")
    words = list(vectors)
    start = np.stack([vector / np.linalg.norm(vector) for vector in vectors.values()])
    initial = {"units": "words", "dim": 4, "initial_vectors": str(tmp_path / "vectors.txt"), "epochs": 4}

    def similarity(name: str, **changes: Any) -> float:
        folder, _ = trained(settings, {**initial, "model": str(tmp_path / name), **changes})
        return float((load_encoder(folder).encode(words)[0] * start).sum(1).mean())

    assert similarity("untrained", objective="none") == pytest.approx(1, abs=1e-5)
    assert similarity("free") < similarity("pulled", pull=1.0) < 1


def test_missing_word_vectors_are_named(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.txt: no such file"):
        trained(settings, {"initial_vectors": str(tmp_path / "absent.txt")})
