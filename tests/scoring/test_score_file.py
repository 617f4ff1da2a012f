import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from mining.corpus import BitextSpec, CorpusSpec
from mining.encoder import Encoder
from mining.errors import InputError, RunError, UsageError
from mining.schemas import SCORES_SCHEMA
from mining.scoring import SCORED, ScoreConfig, score_file
from pipelines.cli.commands.score import score
from tests.cli.runner import runner
from tests.scoring.conftest import SENTENCES, vector_file

PAIRS = [
    {"id": "a", "source": "red house", "target": "rot haus"},
    {"id": "b", "source": "", "target": "baum"},
    {"id": "c", "source": "blue\ttree\nbird", "target": "blau baum  vogel"},
]


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return path


def config(pairs: Path | list[str], model: Path, output: Path, **rules) -> ScoreConfig:
    spec = BitextSpec(path=[str(pairs)] if isinstance(pairs, Path) else pairs, **rules)
    return ScoreConfig(pairs=spec, model=str(model), output=str(output))


def read_tsv(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().removesuffix("\n").split("\n")]


def test_jsonl_and_parquet_keep_texts_as_they_were(tmp_path: Path, pairs_file: Path, model: Path) -> None:
    score_file(config(pairs_file, model, tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().removesuffix("\n").split("\n")]
    assert [{key: line[key] for key in ("id", "source", "target")} for line in lines] == PAIRS
    assert (lines[1]["cosine"], lines[1]["reason"]) == (None, "blank")
    score_file(config(pairs_file, model, tmp_path / "out.parquet"))
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.equals(SCORES_SCHEMA)
    assert table.to_pylist() == lines


def test_tsv_has_a_header_and_empty_nulls(tmp_path: Path, pairs_file: Path, model: Path) -> None:
    score_file(config(pairs_file, model, tmp_path / "out.tsv"))
    header, first, second, third = read_tsv(tmp_path / "out.tsv")
    assert header == SCORES_SCHEMA.names
    assert len(first[3].split(".")[1]) == 6
    assert second == ["b", "", "baum", "", "", "", "", "blank"]
    assert third[1] == "blue tree bird"


def test_output_can_be_scored_again(tmp_path: Path, pairs_file: Path, model: Path) -> None:
    score_file(config(pairs_file, model, tmp_path / "out.jsonl"))
    score_file(config(tmp_path / "out.jsonl", model, tmp_path / "again.jsonl"))
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_two_line_aligned_files(tmp_path: Path, model: Path) -> None:
    (tmp_path / "x.de").write_text("rot haus\nbaum\n")
    (tmp_path / "x.en").write_text("red house\ntree\n")
    paths = [str(tmp_path / "x.de"), str(tmp_path / "x.en")]
    scorer = score_file(config(paths, model, tmp_path / "out.tsv", format="text"))
    assert scorer.tally == {SCORED: 2}
    assert [line[0] for line in read_tsv(tmp_path / "out.tsv")[1:]] == ["x.de:1", "x.de:2"]


def test_very_long_line_is_kept(tmp_path: Path, model: Path) -> None:
    long = "haus " * 100_000
    (tmp_path / "p.tsv").write_text(f"red\t{long}\nred\trot\n")
    settings_ = config(tmp_path / "p.tsv", model, tmp_path / "o.parquet", columns=["source", "target"])
    scorer = score_file(settings_)
    table = pq.read_table(tmp_path / "o.parquet")
    assert scorer.tally == {"too_long": 1, SCORED: 1}
    assert table["target"][0].as_py() == long


def test_nothing_scored_is_an_error_after_writing(tmp_path: Path, model: Path) -> None:
    (tmp_path / "p.tsv").write_text("red\t\n\trot\n")
    settings_ = config(tmp_path / "p.tsv", model, tmp_path / "o.tsv", columns=["source", "target"])
    with pytest.raises(RunError, match=r"p\.tsv: none of the 2 pairs could be scored \(2 blank\): see .*o\.tsv"):
        score_file(settings_)
    assert len(read_tsv(tmp_path / "o.tsv")) == 3


def test_empty_input_leaves_no_file(tmp_path: Path, model: Path) -> None:
    (tmp_path / "p.jsonl").write_text("")
    with pytest.raises(InputError, match=r"p\.jsonl: holds no pairs"):
        score_file(config(tmp_path / "p.jsonl", model, tmp_path / "o.tsv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.jsonl"]


def test_fault_while_writing_leaves_the_old_file(tmp_path: Path, model: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'{"source": "a", "target": "b"}\n{"source": "\xff", "target": "b"}\n')
    (tmp_path / "o.jsonl").write_text("old")
    with pytest.raises(InputError, match="line 2"):
        score_file(config(tmp_path / "p.jsonl", model, tmp_path / "o.jsonl"))
    assert (tmp_path / "o.jsonl").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out.txt", r"out\.txt: the name of a file of scores ends in \.tsv, \.jsonl, \.parquet"),
        ("none/out.tsv", r"folder .*none does not exist: make it first"),
        ("pairs.jsonl", r"pairs\.jsonl: is the input as well: name another output"),
        ("pool.jsonl", r"pool\.jsonl: is the input as well: name another output"),
        ("folder.tsv", r"folder\.tsv: is a folder: name another output"),
    ],
)
def test_bad_output(tmp_path: Path, pairs_file: Path, model: Path, output: str, message: str) -> None:
    (tmp_path / "folder.tsv").mkdir()
    (tmp_path / "pool.jsonl").write_text('{"text": "red"}\n')
    pool = CorpusSpec(path=str(tmp_path / "*l.jsonl"), format="jsonl")
    pools = {"source_pool": pool, "target_pool": pool}
    settings = config(pairs_file, model, tmp_path / output)
    with pytest.raises(UsageError, match=message):
        score_file(settings.model_copy(update=pools))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["p.jsonl", "-o", "x.tsv", "--k", "2"], "--k is for the margin against pools: give --source-pool and"),
        (
            ["p.jsonl", "-o", "x.tsv", "--pool-columns", "a"],
            "--pool-columns has no meaning without --source-pool or --target-pool",
        ),
    ],
)
def test_flags_on_pools_need_pools(run: Callable[..., Result], flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*flags)


def test_the_configuration_is_not_overwritten(tmp_path: Path, pairs_file: Path, run: Callable[..., Result]) -> None:
    place = tmp_path / "config.jsonl"
    place.write_text(f"{{pairs: {pairs_file}, output: {place}}}")
    with pytest.raises(UsageError, match=r"config\.jsonl: is the input as well"):
        run("--config", place)


@pytest.fixture
def run() -> Callable[..., Result]:
    return runner(score)


def test_command_with_pools(tmp_path: Path, pairs_file: Path, model: Path, encoder: Encoder, run: Callable) -> None:
    (tmp_path / "mono.de").write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(SENTENCES[:20])))
    pool = vector_file(tmp_path / "en.npy", encoder, SENTENCES[30:60])
    result = run(
        *(pairs_file, "--model", model, "-o", tmp_path / "out.parquet", "--source-pool", tmp_path / "mono.de"),
        *("--pool-columns", "id,text", "--target-pool", pool, "--k", "3", "--margin", "distance"),
    )
    assert result.stdout.rstrip("\n").split("\n")[-1] == (
        f"2 of 3 pairs scored (cosine and distance margin), 1 without a score (1 blank): {tmp_path / 'out.parquet'}"
    )
    assert "mono.de: 20 distinct sentences of 20 rows (0 repeated, 0 unusable)" in result.stderr
    got = pq.read_table(tmp_path / "out.parquet").to_pylist()
    expected = [r["cosine"] - (r["source_mean"] + r["target_mean"]) / 2 for r in (got[0], got[2])]
    assert [got[0]["margin"], got[2]["margin"]] == pytest.approx(expected, abs=2e-6)


def test_command_by_configuration_and_flags(tmp_path: Path, pairs_file: Path, model: Path, run: Callable) -> None:
    file = tmp_path / "score.yaml"
    file.write_text(f"pairs: {{path: nothing.jsonl}}\nmodel: {model}\noutput: {tmp_path / 'a.tsv'}\n")
    result = run(pairs_file, "--config", file, "-o", tmp_path / "b.tsv")
    assert result.stdout.endswith(f"2 of 3 pairs scored (cosine), 1 without a score (1 blank): {tmp_path / 'b.tsv'}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source-pool", "x.txt"], "give target_pool too"),
        (["--k", "0"], "k: .*greater than 0"),
        (["--margin", "relative"], "margin: unknown margin 'relative'"),
        (["--model", "nowhere"], "nowhere"),
        (["--format", "tsv"], "declare the columns"),
    ],
)
def test_command_with_bad_flags(
    tmp_path: Path, pairs_file: Path, model: Path, run: Callable, arguments: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(pairs_file, "--model", model, "-o", tmp_path / "o.tsv", *arguments)


def test_command_without_anything(run: Callable) -> None:
    assert "Examples" in run("--help").stdout
    with pytest.raises(
        UsageError, match=r"bitext score: nothing given for pairs: use PAIRS.*; nothing given for output: use --output"
    ):
        run()


def test_unknown_key_in_the_configuration(tmp_path: Path, run: Callable) -> None:
    (tmp_path / "c.yaml").write_text("marign: ratio\n")
    with pytest.raises(UsageError, match=r"c\.yaml: .*unknown key 'marign': did you mean 'margin'"):
        run("--config", tmp_path / "c.yaml")
