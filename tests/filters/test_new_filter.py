"""A new filter is one file: named in a configuration or by its flag, counted, in the help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mining.errors import UsageError
from mining.training.data import open_prepared
from pipelines.cli.commands.prepare import prepare
from tests.cli.runner import runner

pytestmark = pytest.mark.usefixtures("new_filter")


@pytest.fixture
def bitext(tmp_path: Path) -> Path:
    lines = [f"bad cab {'abcdefghij'[n % 10]} {'9' * (n % 4)}\tdab bac {n % 7} {n}\n" for n in range(80)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    return tmp_path / "pairs.tsv"


def test_named_in_a_configuration_it_drops_pairs_and_is_counted(bitext: Path, tmp_path: Path) -> None:
    settings = {
        "bitext": {"path": str(bitext), "columns": ["source", "target"]},
        "filters": {"max_digits": 2, "duplicates": False},
        "vocabulary": 40,
    }
    (tmp_path / "prepare.yaml").write_text(yaml.safe_dump(settings))
    output = tmp_path / "prepared"
    shown = runner(prepare)("--config", tmp_path / "prepare.yaml", "--output", output, "--threads", 1).stdout
    pairs = open_prepared(output)
    assert list(pairs.dropped) == ["max_digits"]
    assert pairs.dropped["max_digits"] + len(pairs) == 80
    assert shown.split("\n")[0].split() == ["domain", "weight", "pairs", "max_digits"]
    assert json.loads((output / "prepared.json").read_text())["settings"]["filters"]["max_digits"] == 2


def test_it_has_a_flag_with_help_and_limits(bitext: Path, tmp_path: Path) -> None:
    run = runner(prepare)
    assert "--max-digits INTEGER Most digits of a side." in " ".join(run("--help").stdout.split())
    data = ("--bitext", bitext, "--columns", "source,target", "--vocabulary", 40, "--output", tmp_path / "o")
    run(*data, "--max-digits", 2, "--keep-duplicates")
    assert open_prepared(tmp_path / "o").dropped["max_digits"] > 0
    with pytest.raises(UsageError, match="--max-digits: Input should be greater"):
        run(*data, "--max-digits", -1)
