from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mining.cli.train import describe, train
from mining.encoder import load_encoder
from mining.errors import InputError, UsageError
from mining.training import Progress, TrainConfig
from tests.commands import runner

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
    assert encoder.config["languages"] == ["aa", "bb"]  # type: ignore[attr-defined]


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


def test_two_columns_may_have_other_names(flags: list[object], bitext: Path) -> None:
    run("--bitext", bitext, "--columns", "en,de,domain", "--source", "de", "--target", "en", *flags)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "m"], "name the bitext with --bitext"),
        (["--bitext", "pairs.tsv"], "name the folder of the model with --model"),
        (["--bitext", "absent.tsv", "--columns", "source,target", "--model", "m"], r"absent\.tsv"),
        (["--bitext", "pairs.tsv", "--columns", "a,b,c", "--model", "m"], "no column 'source'"),
        (["--bitext", "pairs.tsv", "--model", "m", "--dim", "0"], "dim"),
        (["--bitext", "pairs.tsv", "--model", "m", "--domain-cap", "5"], "domain_column and domain_cap"),
        (["--config", "wrong.yaml"], "unknown key 'vocabulry': did you mean 'vocabulary'"),
    ],
)
def test_bad_usage_says_what_is_wrong(
    arguments: list[str], message: str, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_bytes(bitext.read_bytes())
    (tmp_path / "wrong.yaml").write_text("bitext: {path: pairs.tsv}\nmodel: m\nvocabulry: 50\n")
    with pytest.raises(UsageError, match=message):
        run(*arguments)


def test_empty_bitext_is_an_input_error(flags: list[object], tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(InputError, match=r"empty\.tsv"):
        run("--bitext", tmp_path / "empty.tsv", "--columns", "source,target", *flags)


def test_progress_line_shows_what_matters() -> None:
    line = describe(Progress("vectors", 5000, 40, 1, 0.25, 12345.6, 7, 0.5, 83.0))
    assert line == "epoch 2  loss 0.2500  12,346 pairs/s  mega-batch 7  1:23 left"


def test_help_has_examples() -> None:
    assert "bitext train --bitext" in run("--help").stdout


def test_preset_is_valid() -> None:
    path = Path(__file__).parents[2] / "configs" / "train-en-de.yaml"
    config = TrainConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert (config.vocabulary, config.dim) == (20_000, 300)
    assert config.minutes is not None
    assert config.minutes <= 15
