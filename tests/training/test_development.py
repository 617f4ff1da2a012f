from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mining.encoder import load_encoder
from mining.encoder.model_folder import read_description
from mining.errors import UsageError
from mining.training import DevelopmentSettings, Progress, TrainConfig, train
from mining.training.development import DevelopmentSet
from mining.training.folder import CHECKPOINT_FOLDER, CURVES_FOLDER

METRICS = ["mining", "tatoeba", "sts"]


class KilledError(Exception):
    """Stands for the death of the process."""


@pytest.fixture
def development(bitext: Path, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """A development set for each metric, of sentences that are trained on."""
    lines = [line.split("\t") for line in bitext.read_text().rstrip("\n").split("\n")][:60]
    source, target, gold, sts = (tmp_path / f"{name}.tsv" for name in ("source", "target", "gold", "sts"))
    source.write_text("".join(f"s{n}\t{line[0]}\n" for n, line in enumerate(lines)))
    target.write_text("".join(f"t{n}\t{line[1]}\n" for n, line in reversed(list(enumerate(lines)))))
    gold.write_text("".join(f"s{n}\tt{n}\n" for n in range(60)))
    pairs = [(5, line[0], line[1]) for line in lines] + [(0, one[0], other[1]) for one, other in pairwise(lines)]
    sts.write_text("".join(f"{score}\t{left}\t{right}\n" for score, left, right in pairs))
    every = {"every": 5}
    return {
        "mining": {"metric": "mining", "source": str(source), "target": str(target), "gold": str(gold), **every},
        "tatoeba": {"metric": "tatoeba", "paths": tatoeba_files(tmp_path, lines), **every},
        "sts": {"metric": "sts", "paths": [str(sts)], **every},
    }


def tatoeba_files(folder: Path, lines: list[list[str]]) -> list[str]:
    paths = [folder / "tatoeba.aaa-bbb.aaa", folder / "tatoeba.aaa-bbb.bbb"]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{line[side]}\n" for line in lines))
    return [str(path) for path in paths]


def curve(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / CURVES_FOLDER / "log.jsonl").read_text().rstrip("\n").split("\n")
    return [json.loads(line) for line in lines]


def measures(folder: Path) -> dict[int, float]:
    return {point["step"]: point["development"] for point in curve(folder) if "development" in point}


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_measured_parameters_are_the_model(
    metric: str, settings: dict[str, Any], development: dict[str, dict[str, Any]]
) -> None:
    # So large a learning rate spoils what was learnt.
    config = TrainConfig.model_validate({**settings, "learning_rate": 0.05, "development": development[metric]})
    folder = train(config)
    found = measures(folder)
    best = read_description(folder).training["development"]
    assert best["best"] == max(found.values()) == found[best["step"]]
    assert best["best"] > min(found.values())
    encoder = load_encoder(folder)
    assert config.development is not None
    assert DevelopmentSet.read(config.development).measure(encoder, encoder, 1) == best["best"]
    assert max(found) == curve(folder)[-1]["step"] == 39
    assert (folder / CURVES_FOLDER / "curves.png").is_file()


def test_it_stops_when_nothing_gets_better(settings: dict[str, Any], development: dict[str, dict[str, Any]]) -> None:
    changes = {"epochs": 50, "learning_rate": 1e-9, "development": {**development["mining"], "patience": 3}}
    seen: list[Progress] = []
    folder = train(TrainConfig.model_validate({**settings, **changes}), seen.append)
    found = measures(folder)
    summary = read_description(folder).training
    assert len(found) == 4
    assert summary["development"]["step"] == min(found)
    assert summary["steps"] == max(found) < 50
    assert seen[-1].best == summary["development"]["best"]


def test_interrupted_and_resumed_measures_and_selects_the_same(
    settings: dict[str, Any], development: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    changed = {**settings, "learning_rate": 0.05, "checkpoint_minutes": 0, "development": development["mining"]}
    whole = train(TrainConfig.model_validate({**changed, "model": str(tmp_path / "whole")}))
    config = TrainConfig.model_validate(changed)

    def killed_at(step: int) -> None:
        def report(progress: Progress) -> None:
            if progress.step == step:
                raise KilledError

        with pytest.raises(KilledError):
            train(config, report)

    for step in (9, 22, 38):
        killed_at(step)
    folder = train(config)
    assert curve(folder) == curve(whole)
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert not (folder / CHECKPOINT_FOLDER).exists()


def test_languages_kept_apart_are_measured_each_by_its_own(
    settings: dict[str, Any], development: dict[str, dict[str, Any]]
) -> None:
    changes = {"shared": False, "languages": ["aa", "bb"], "learning_rate": 0.05, "epochs": 8}
    config = TrainConfig.model_validate({**settings, **changes, "development": development["mining"]})
    folder = train(config)
    best = read_description(folder).training["development"]["best"]
    source, target = (load_encoder(folder, language=language) for language in ("aa", "bb"))
    assert config.development is not None
    assert DevelopmentSet.read(config.development).measure(source, target, 1) == best
    assert best > 50


@pytest.mark.parametrize(
    ("metric", "key"),
    [("mining", "source"), ("mining", "target"), ("mining", "gold"), ("tatoeba", "paths"), ("sts", "paths")],
)
def test_a_missing_file_is_named_before_anything_is_done(
    metric: str, key: str, settings: dict[str, Any], development: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    absent = str(tmp_path / "absent.tsv")
    wanted = {**development[metric], key: [absent] if key == "paths" else absent}
    with pytest.raises(UsageError, match=r"absent\.tsv"):
        train(TrainConfig.model_validate({**settings, "development": wanted}))
    assert not Path(settings["model"]).exists()


def test_settings_of_a_metric_are_whole() -> None:
    with pytest.raises(ValidationError, match="needs source, target and gold"):
        DevelopmentSettings.model_validate({"metric": "mining", "source": "a.tsv"})
    with pytest.raises(ValidationError, match="metric: sts needs paths"):
        DevelopmentSettings.model_validate({"metric": "sts"})
