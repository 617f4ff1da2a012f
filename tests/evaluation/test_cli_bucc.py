import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

from mining.errors import BitextError, InputError, UsageError
from mining.io.parquet import write_parquet
from mining.io.tsv import write_tsv
from mining.schemas import CANDIDATES_SCHEMA, DROPPED_SCHEMA, PAIRS_SCHEMA
from pipelines.cli.commands.evaluate.bucc import bucc
from tests.cli.runner import runner

run = runner(bucc)


def full_pairs(rows: list[tuple[str, str, float]]) -> pa.Table:
    fill = {"cosine": 0.5, "source_mean": 0.4, "target_mean": 0.4, "rank": 1, "direction": "both"}
    fill |= {"source_text": "a\tb", "target_text": "x", "source_occurrences": 1, "target_occurrences": 1}
    return pa.Table.from_pylist(
        [{**fill, "source_id": s, "target_id": t, "score": score} for s, t, score in rows], schema=PAIRS_SCHEMA
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with tables, gold, and a second split in ``test/``."""
    pairs = full_pairs([("s1", "t1", 1.3), ("s2", "t2", 1.2), ("s3", "t9", 1.1), ("s4", "t4", 0.8), ("s5", "t8", 0.7)])
    write_parquet(tmp_path / "pairs.parquet", PAIRS_SCHEMA, [pairs])
    write_tsv(tmp_path / "pairs.tsv", PAIRS_SCHEMA, [pairs])
    (tmp_path / "x.gold").write_text("".join(f"s{i}\tt{i}\n" for i in (1, 2, 3, 4)))
    (tmp_path / "x.de").write_text("".join(f"s{i}\tSatz {i}\n" for i in range(1, 9)))
    (tmp_path / "x.en").write_text("".join(f"t{i}\tsentence {i}\n" for i in range(1, 10)))
    test = tmp_path / "test"
    test.mkdir()
    write_parquet(test / "pairs.parquet", PAIRS_SCHEMA, [full_pairs([("a1", "b1", 0.9), ("a2", "b3", 0.6)])])
    (test / "y.gold").write_text("a1\tb1\na2\tb2\n")
    return tmp_path


def last_line(result: Result) -> str:
    return result.stdout.rstrip("\n").split("\n")[-1]


def test_tunes_by_default(folder: Path) -> None:
    result = run("--pairs", folder / "pairs.parquet", "--gold", folder / "x.gold")
    assert result.exit_code == 0
    assert last_line(result) == "F1 75.00% at threshold 0.75 (tuned)"
    assert "3 of 4 extracted pairs" in result.stdout
    assert "not_in_pairs" in result.stdout


def test_examples_of_missed_pairs_stand_on_one_line(folder: Path) -> None:
    (folder / "x.gold").write_text("s1\tt1\ns6\tt6\ns7\tt7\ns8\tt8\n")
    result = run("--pairs", folder, "--gold", folder / "x.gold")
    assert "s6 t6; s7 t7" in result.stdout
    assert "\\n" not in result.stdout


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.tsv", "."])
def test_any_file_of_pairs_or_the_run_folder(folder: Path, name: str) -> None:
    result = run("--pairs", folder / name, "--gold", folder / "x.gold", "--json", folder / "m.json")
    assert last_line(result) == f"F1 75.00% at threshold 0.75 (tuned); metrics in {folder / 'm.json'}"
    assert json.loads((folder / "m.json").read_text())["f1"] == 0.75


def test_json_is_sorted_and_repeatable(folder: Path) -> None:
    written = []
    for _ in range(2):
        run("--pairs", folder, "--gold", folder / "x.gold", "--folds", "2", "--json", folder / "m.json")
        written.append((folder / "m.json").read_bytes())
    assert written[0] == written[1]
    data = json.loads(written[0])
    assert written[0].decode() == json.dumps(data, indent=2, sort_keys=True) + "\n"
    assert len(data["cross_validation"]["folds"]) == 2


@pytest.mark.parametrize(
    ("threshold", "shown"), [("1.15", "1.15 (given)"), ("none", "none (none)"), ("-0.5", "-0.5 (given)")]
)
def test_threshold_flag(folder: Path, threshold: str, shown: str) -> None:
    result = run("--pairs", folder, "--gold", folder / "x.gold", "--threshold", threshold)
    assert re.search(rf"F1 \d+\.\d\d% at threshold {re.escape(shown)}$", last_line(result))


def test_tables_beside_the_pairs_are_used(folder: Path) -> None:
    row = {"side": "target", "id": "t3", "file": "f", "line": 3, "reason": "too_long", "kept_id": None, "text": "..."}
    write_parquet(folder / "dropped.parquet", DROPPED_SCHEMA, [pa.Table.from_pylist([row], schema=DROPPED_SCHEMA)])
    candidate = {
        "source_id": "s1",
        "target_id": "t1",
        "score": 1.3,
        "cosine": 0.5,
        "forward_rank": 1,
        "backward_rank": 2,
    }
    table = pa.Table.from_pylist([candidate], schema=CANDIDATES_SCHEMA)
    write_parquet(folder / "candidates.parquet", CANDIDATES_SCHEMA, [table])
    result = run("--pairs", folder / "pairs.tsv", "--gold", folder / "x.gold")
    assert "target_too_long" in result.stdout
    assert "@1 25.00%, @2 25.00%" in result.stdout


def test_threshold_of_one_split_is_applied_to_the_other(folder: Path) -> None:
    result = run(
        *("--pairs", folder, "--gold", folder / "x.gold", "--json", folder / "m.json"),
        *("--test-pairs", folder / "test", "--test-gold", folder / "test" / "y.gold"),
    )
    assert last_line(result).startswith("test F1 66.67% at threshold 0.75 (tuned); tuning split: F1 75.00%")
    data = json.loads((folder / "m.json").read_text())
    assert data["test"]["threshold"] == data["threshold"] == 0.75
    assert data["test"]["counts"]["extracted"] == 1


def test_folds(folder: Path) -> None:
    result = run("--pairs", folder, "--gold", folder / "x.gold", "--folds", "2")
    assert re.match(
        r"F1 \d+\.\d\d% \(mean of 2 held-out folds\); on all gold: F1 75\.00% at threshold", last_line(result)
    )


def test_domains(folder: Path) -> None:
    (folder / "x.gold-domains").write_text("s1\tt1\tnews[x]\ns3\tt3\tui\n")
    result = run("--pairs", folder, "--gold", folder / "x.gold-domains")
    assert "news[x]" in result.stdout


def test_corpora_hold_the_gold_ids(folder: Path) -> None:
    corpora = ("--source", folder / "x.de", "--target", folder / "x.en", "--format", "tsv", "--columns", "id,text")
    assert run("--pairs", folder, "--gold", folder / "x.gold", *corpora).exit_code == 0
    (folder / "bad.gold").write_text("s1\tt1\ns99\tt2\n")
    with pytest.raises(
        InputError, match=r"1 of 2 source ids \(50\.0%\) are not in the source corpus, for example 's99'"
    ):
        run("--pairs", folder, "--gold", folder / "bad.gold", *corpora)


def test_undeclared_columns_say_how(folder: Path) -> None:
    with pytest.raises(UsageError, match="declare the columns"):
        run("--pairs", folder, "--gold", folder / "x.gold", "--source", folder / "x.de", "--format", "tsv")


def test_wrong_gold_warns_on_stderr(folder: Path) -> None:
    (folder / "odd.gold").write_text("s1\tt1\n" + "".join(f"q{i}\tr{i}\n" for i in range(9)))
    result = run("--pairs", folder, "--gold", folder / "odd.gold")
    assert "warning: " in result.stderr
    assert "18 of 20 gold ids (90.0%)" in result.stderr


def test_empty_tuning_split(folder: Path) -> None:
    write_parquet(folder / "none.parquet", PAIRS_SCHEMA, [])
    alone = run("--pairs", folder / "none.parquet", "--gold", folder / "x.gold")
    assert last_line(alone) == "F1 0.00% at threshold none (tuned)"
    with pytest.raises(UsageError, match="holds no pairs to tune the threshold on: give --threshold"):
        run(
            *("--pairs", folder / "none.parquet", "--gold", folder / "x.gold"),
            *("--test-pairs", folder / "test", "--test-gold", folder / "test" / "y.gold"),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threshold", "high"], "--threshold: 'high' is neither a number nor one of tune, none"),
        (["--threshold", "nan"], "--threshold: 'nan' is neither a number"),
        (["--test-pairs", "x"], "--test-pairs and --test-gold belong together: give both"),
        (["--folds", "5", "--threshold", "1"], "--folds tunes the threshold by itself"),
        (["--folds", "9"], "use 2 to 4 folds"),
        (["--dropped", "nowhere.parquet"], "--dropped nowhere.parquet: no such file"),
        (["--columns", "id,text"], "--columns has no meaning without --source or --target: give --source"),
        (["--json", "no/such/folder/m.json"], "--json no/such/folder/m.json: there is no folder no/such/folder"),
    ],
)
def test_bad_flags(folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run("--pairs", folder, "--gold", folder / "x.gold", *arguments)


@pytest.mark.parametrize("name", ["x.gold", "pairs.parquet", "corpus.tsv"])
def test_metrics_never_take_the_place_of_an_input(folder: Path, name: str) -> None:
    (folder / "corpus.tsv").write_text("s1\ttext\n")
    before = (folder / name).read_bytes()
    with pytest.raises(UsageError, match=rf"--json .*{name}: is the input as well: name another output"):
        run(
            *("--pairs", folder, "--gold", folder / "x.gold", "--json", folder / name),
            *("--source", folder / "corpus.tsv", "--columns", "id,text"),
        )
    assert (folder / name).read_bytes() == before


def test_missing_files(folder: Path) -> None:
    with pytest.raises(
        UsageError, match=r"none\.parquet: no such file of pairs: give the pairs file of a run, or its folder"
    ):
        run("--pairs", folder / "none.parquet", "--gold", folder / "x.gold")
    with pytest.raises(UsageError, match=r"none\.gold: no such gold file"):
        run("--pairs", folder, "--gold", folder / "none.gold")


def test_not_a_parquet_file(folder: Path) -> None:
    (folder / "fake.parquet").write_text("score\n")
    with pytest.raises(BitextError, match=r"fake\.parquet: not a readable Parquet file"):
        run("--pairs", folder / "fake.parquet", "--gold", folder / "x.gold")


def test_help_has_examples() -> None:
    assert "Examples" in run("--help").stdout
