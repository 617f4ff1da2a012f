from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mining.errors import UsageError
from mining.training.data import open_prepared
from pipelines.cli.commands.prepare import prepare, table
from tests.cli.runner import runner

run = runner(prepare)


@pytest.fixture
def flags(bitext: Path, tmp_path: Path) -> list[object]:
    columns = ["--columns", "source,target,domain", "--domain", "domain", "--vocabulary", "100", "--threads", "1"]
    return ["--bitext", bitext, *columns, "--output", tmp_path / "prepared"]


def test_flags_alone(flags: list[object], tmp_path: Path) -> None:
    result = run(*flags, "--languages", "aa,bb", "--min-tokens", 4, "--cap", 50, "--units", "pieces,words")
    pairs = open_prepared(tmp_path / "prepared")
    assert pairs.kinds == ["pieces", "words"]
    lines = result.stdout.rstrip("\n").split("\n")
    assert lines[0].split() == ["domain", "weight", "pairs", "too_few_tokens", "domain_cap"]
    assert lines[1].split()[:3] == ["aa-bb/common", "1", "50"]
    assert lines[-1].endswith(f"of 200 rows in {tmp_path / 'prepared'}")
    assert lines[-1].startswith(f"{len(pairs)} pairs, ")
    assert pairs.dropped["domain_cap"] + pairs.dropped["too_few_tokens"] + len(pairs) == 200


def test_again_and_otherwise(flags: list[object], tmp_path: Path) -> None:
    run(*flags)
    before = (tmp_path / "prepared" / "prepared.json").stat().st_mtime_ns
    assert run(*flags).stdout.startswith("already prepared with this configuration and input: nothing to do")
    assert (tmp_path / "prepared" / "prepared.json").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match=r"differs in seed.*--overwrite"):
        run(*flags, "--seed", 3)
    assert "of 200 rows in" in run(*flags, "--seed", 3, "--overwrite").stdout


def test_configuration_and_flags_over_it(bitext: Path, tmp_path: Path) -> None:
    settings = {
        "bitext": [{"path": "nowhere.tsv", "columns": ["source", "target", "domain"], "domain": "domain"}],
        "vocabulary": 100,
        "filters": {"min_tokens": 3},
        "domains": [{"match": "common", "weight": 0.5}],
        "output": str(tmp_path / "from-file"),
    }
    path = tmp_path / "prepare.yaml"
    path.write_text(yaml.safe_dump(settings))
    result = run("--config", path, "--bitext", bitext, "--drop", "rare", "--drop", "rarer")
    pairs = open_prepared(tmp_path / "from-file")
    found = {domain.name: (domain.pairs, domain.weight) for domain in pairs.domains}
    assert found == {"rare": (0, 1.0), "common": (180, 0.5)}
    assert "warning: domains: no domain fits the pattern 'rarer'; the nearest are rare" in result.stderr


def test_flags_of_several_bitexts_are_ambiguous(bitext: Path, tmp_path: Path) -> None:
    path = tmp_path / "prepare.yaml"
    path.write_text(yaml.safe_dump({"bitext": [{"path": str(bitext)}, {"path": "b.tsv"}]}))
    with pytest.raises(UsageError, match="names 2 bitexts, so --columns is ambiguous"):
        run("--config", path, "--columns", "source,target,domain", "--output", tmp_path / "o")


def test_what_is_missing(bitext: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing given for output: use --output, or 'output:' in the file"):
        run("--bitext", bitext)
    with pytest.raises(UsageError, match="nothing given for bitext: use --bitext"):
        run("--output", tmp_path / "o")
    with pytest.raises(UsageError, match=r"no column 'genre' is declared"):
        run("--bitext", bitext, "--columns", "source,target,domain", "--domain", "genre", "--output", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_a_folder_with_other_things_is_refused(flags: list[object], tmp_path: Path) -> None:
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"not empty \(it holds thesis\.tex\)"):
        run(*flags, "--overwrite")


def test_many_domains_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"abc bad{n}\tcba dab{n}\tdomain{n % 5}\n" for n in range(50)))
    columns = ["--columns", "source,target,domain", "--domain", "domain"]
    run("--bitext", path, *columns, "--vocabulary", 60, "--output", tmp_path / "o")
    monkeypatch.setattr("pipelines.cli.commands.prepare.SHOWN_DOMAINS", 3)
    lines = [line.split() for line in table(open_prepared(tmp_path / "o"))]
    assert lines[-2:] == [["2", "more", "20"], ["all", "50"]]
