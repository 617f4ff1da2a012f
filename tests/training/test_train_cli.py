from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mining.encoder import load_encoder
from mining.encoder.model_folder import read_description
from mining.errors import InputError, UsageError
from mining.training import Progress, TrainConfig
from mining.training.data import DataConfig, prepare
from pipelines.cli.commands.train import describe, train
from tests.cli.runner import runner

run = runner(train)


@pytest.fixture
def flags(settings: dict[str, Any]) -> list[object]:
    names = ("model", "vocabulary", "dim", "batch", "epochs", "threads")
    return [part for name in names for part in (f"--{name}", settings[name])]


def test_flags_alone(flags: list[object], bitext: Path, tmp_path: Path) -> None:
    result = run("--bitext", bitext, "--columns", "source,target,domain", "--languages", "aa,bb", *flags)
    encoder = load_encoder(tmp_path / "model")
    last = result.stdout.strip().rsplit("\n", 1)[-1]
    assert last.startswith("200 pairs, 39 steps, loss ")
    assert last.endswith(f"16 dimensions, model {encoder.hash} in {tmp_path / 'model'}")
    assert encoder.description.languages == ["aa", "bb"]


def test_file_and_a_flag_over_it(settings: dict[str, Any], bitext: Path, tmp_path: Path) -> None:
    settings["bitext"]["path"] = "nowhere.tsv"
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(settings))
    run("--config", path, "--bitext", bitext, "--dim", 8)
    assert load_encoder(tmp_path / "model").dim == 8
    assert "already trained" in run("--config", path, "--bitext", bitext, "--dim", 8).stdout
    with pytest.raises(UsageError, match="--overwrite"):
        run("--config", path, "--bitext", bitext)
    run("--config", path, "--bitext", bitext, "--overwrite")
    assert load_encoder(tmp_path / "model").dim == 16


def test_prepared_pairs_in_place_of_the_bitext_of_the_file(
    settings: dict[str, Any], flags: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(settings))
    data = {"bitext": settings["bitext"], "vocabulary": 60, "units": ["pieces", "words"]}
    prepare(DataConfig.model_validate(data), tmp_path / "pairs", threads=1)
    run("--config", path, "--prepared", tmp_path / "pairs", "--combine", "concatenate")
    assert load_encoder(tmp_path / "model").dim == 2 * settings["dim"]


def test_encoder_objective_and_languages_apart_by_flags(
    flags: list[object], bitext: Path, tmp_path: Path, development: Path
) -> None:
    data = ["--bitext", bitext, "--columns", "source,target,domain", "--domain", "domain", "--languages", "aa,bb"]
    encoder = ["--units", "words,trigrams", "--apart", "--projection", 8, "--types", 300, "--l2", 1e-6]
    objective = ["--objective", "j_bi", "--negatives", 2, "--negative-choice", "mix", "--negative-pool", "monolingual"]
    result = run("--config", development, *data, *encoder, *objective, "--tensorboard", *flags)
    lines = result.stdout.rstrip("\n").split("\n")
    description = read_description(tmp_path / "model")
    best = description.training["development"]
    assert lines[-2] == f"development: tatoeba {best['best']:.2f} at step {best['step']}, kept as the model"
    assert lines[-1].endswith(f"8 dimensions, model {description.hash} in {tmp_path / 'model'}")
    assert {domain["name"] for domain in description.training["data"]["domains"]} == {"common", "rare"}
    assert load_encoder(tmp_path / "model", language="bb").encode(["abc"])[0].shape == (1, 8)
    assert list((tmp_path / "model" / "curves" / "tensorboard").iterdir())


@pytest.fixture
def development(tmp_path: Path) -> Path:
    """A configuration that names a development set and nothing else."""
    for language in ("aaa", "bbb"):
        (tmp_path / f"set.aaa-bbb.{language}").write_text("abc def\nghi\n")
    paths = [str(tmp_path / f"set.aaa-bbb.{language}") for language in ("aaa", "bbb")]
    path = tmp_path / "development.yaml"
    path.write_text(yaml.safe_dump({"development": {"metric": "tatoeba", "paths": paths, "every": 10}}))
    return path


def test_report_shows_the_overlap_of_the_languages(flags: list[object], bitext: Path) -> None:
    result = run("--bitext", bitext, "--columns", "source,target,domain", "--languages", "aa,bb", "--report", *flags)
    lines = result.stdout.rstrip("\n").split("\n")
    assert re.split(" {2,}", lines[0])[:6] == ["languages", "units", "pairs", "source types", "target types", "common"]
    name, unit, pairs, source, target, common, *shares = lines[1].split()
    assert (name, unit, pairs) == ("aa-bb", "pieces", "200")
    assert 0 < int(common) < min(int(source), int(target))
    assert float(shares[0]) == pytest.approx(100 * int(common) / int(source), abs=0.06)
    assert len(lines[0]) == len(lines[1])
    assert len(shares) == 4


def test_random_encoder(flags: list[object], bitext: Path, tmp_path: Path) -> None:
    result = run("--bitext", bitext, "--columns", "source,target,domain", "--objective", "none", *flags)
    assert result.stdout.startswith("200 pairs, 0 steps; 16 dimensions, model ")


def test_tensorboard_without_its_package_stops_at_once(
    flags: list[object], bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UsageError, match="pip install tensorboardX"):
        run("--bitext", bitext, "--columns", "source,target,domain", "--tensorboard", *flags)
    assert not (tmp_path / "model").exists()


def test_two_columns_may_have_other_names(flags: list[object], bitext: Path) -> None:
    run("--bitext", bitext, "--columns", "en,de,domain", "--source", "de", "--target", "en", *flags)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "m"], "name the bitext with --bitext"),
        (["--bitext", "pairs.tsv"], "nothing given for model: use --model"),
        (["--bitext", "absent.tsv", "--columns", "source,target", "--model", "m"], r"absent\.tsv"),
        (["--bitext", "pairs.tsv", "--columns", "a,b,c", "--model", "m"], "no column 'source'"),
        (["--bitext", "pairs.tsv", "--model", "m", "--dim", "0"], "dim"),
        (["--bitext", "pairs.tsv", "--prepared", "p", "--model", "m"], "give either bitext or prepared"),
        (["--prepared", "absent", "--model", "m"], "absent: no such folder"),
        (["--bitext", "pairs.tsv", "--model", "m", "--encoder", "lstm", "--units", "pieces,words"], "kind: lstm works"),
        (["--bitext", "pairs.tsv", "--model", "m", "--scramble", "0.5"], "encoder: lstm alone"),
        (["--config", "two.yaml", "--columns", "a,b"], "names 2 bitexts, so --columns is ambiguous"),
        (["--config", "wrong.yaml"], "unknown key 'vocabulry': did you mean 'vocabulary'"),
    ],
)
def test_bad_usage_says_what_is_wrong(
    arguments: list[str], message: str, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_bytes(bitext.read_bytes())
    (tmp_path / "wrong.yaml").write_text("bitext: {path: pairs.tsv}\nmodel: m\nvocabulry: 50\n")
    (tmp_path / "two.yaml").write_text("bitext: [{path: pairs.tsv}, {path: other.tsv}]\nmodel: m\n")
    with pytest.raises(UsageError, match=message):
        run(*arguments)
    assert not (tmp_path / "m").exists()


def test_empty_bitext_is_an_input_error(flags: list[object], tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(InputError, match=r"empty\.tsv"):
        run("--bitext", tmp_path / "empty.tsv", "--columns", "source,target", *flags)


def test_progress_line_shows_what_matters() -> None:
    line = describe(Progress("vectors", 5000, 40, 1, 0.25, 12345.6, 7, 0.5, 83.0))
    assert line == "epoch 2  loss 0.2500  12,346 pairs/s  mega-batch 7  1:23 left"
    line = describe(Progress("vectors", 5000, 40, 1, 0.25, 12345.6, 7, 0.5, 83.0, 71.234, 80.0))
    assert line.endswith("mega-batch 7  development 71.23 (best 80.00)  1:23 left")
    assert describe(Progress("reading", 5000)) == "reading and filtering: 5,000 pairs"


def test_help_has_examples() -> None:
    assert "bitext train --bitext" in run("--help").stdout


def test_preset_is_valid() -> None:
    path = Path(__file__).parents[2] / "configs" / "train-en-de.yaml"
    config = TrainConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert (config.vocabulary, config.dim) == (20_000, 300)
    assert config.objective == "softmax"
    assert config.bitext[0].domain == "domain"
