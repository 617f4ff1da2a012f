"""Which model a run uses, and its options: the bundled one, smaller ones, one with a table for each
language."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from mining import load_encoder
from mining.encoder import model_folder, save_model
from mining.encoder.networks.average import AverageNetwork
from mining.errors import UsageError
from pipelines.cli.commands.score import score
from pipelines.mine import MineResult
from tests.cli.runner import runner
from tests.conftest import Task
from tests.pipelines.conftest import contents


@pytest.fixture(scope="module")
def apart(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as one with a table for each language: the second half points the other
    way."""
    encoder = load_encoder(tiny_model)
    table = encoder.network.tables["pieces"]
    folder = tmp_path_factory.mktemp("apart") / "model"
    turned = AverageNetwork({"pieces": torch.cat([table, -table])})
    save_model(folder, turned, encoder.tokenizers, languages=["aa", "bb"])
    return folder


def pairs(result: MineResult) -> list[tuple[str, str]]:
    table = pq.read_table(result.folder / "pairs.parquet")
    return list(zip(table.column("source_id").to_pylist(), table.column("target_id").to_pylist(), strict=True))


def encoded(result: MineResult) -> int:
    """Steps of encoding that were done, not skipped."""
    return next(row.steps - row.skipped for row in result.report if row.stage == "encode")


def test_without_a_model_the_bundled_one_mines(
    run: Callable[..., MineResult],
    finished: MineResult,
    tiny_model: Path,
    bitext: Callable,
    task: Task,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", tiny_model)
    sides = ("--source", task.source, "--target", task.target, "--columns", "id,text", "--gold", task.gold)
    ended = bitext("mine", *sides, "--output", tmp_path / "run", "--quiet")
    assert ended.code == 0
    assert contents(tmp_path / "run") == contents(finished.folder)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["model"]["path"] is None
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", tmp_path / "absent")
    ended = bitext("mine", *sides, "--output", tmp_path / "other", "--quiet")
    assert ended.code == 2
    assert "no model is named" in ended.err
    assert not (tmp_path / "other").exists()


def test_options_of_the_model_encode_again(run: Callable[..., MineResult]) -> None:
    assert encoded(run()) > 0
    assert encoded(run()) == 0
    assert encoded(run(encode__dim=8)) > 0
    smaller = run(encode__dim=8, encode__dtype="int8")
    assert encoded(smaller) > 0
    manifest = json.loads((smaller.folder / "manifest.json").read_text())
    assert manifest["model"]["dim"] == 8
    assert manifest["model"]["hash"].endswith("-int8-8d")
    assert encoded(run(encode__dim=8, encode__dtype="int8", encode__source_language="aa")) == 0


def test_each_side_is_encoded_in_its_language(
    run: Callable[..., MineResult], apart: Path, finished: MineResult
) -> None:
    same = run(model=apart, encode__source_language="bb", encode__target_language="bb")
    assert pairs(same) == pairs(finished)
    # The second table is the first one turned round: across the two, the best are the worst.
    across = run("across", model=apart, encode__source_language="aa", encode__target_language="bb")
    assert not set(pairs(across)) & set(pairs(finished))
    hashes = json.loads((across.folder / "manifest.json").read_text())["model"]["hash"]
    assert hashes["source"].endswith("-aa")
    assert hashes["target"].endswith("-bb")


@pytest.mark.parametrize(
    ("languages", "message"),
    [({}, "say of which language the texts are, aa or bb"), ({"encode__source_language": "xx"}, "language 'xx'")],
)
def test_missing_or_unknown_language_is_named(
    run: Callable[..., MineResult], apart: Path, languages: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(model=apart, **languages)


def test_scores_are_of_each_sides_language(apart: Path, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("bada\txadabq\n")
    command = runner(score)
    names = ("--columns", "source,target")
    command(tmp_path / "pairs.tsv", *names, "-m", tiny_model, "-o", tmp_path / "plain.parquet")
    languages = ("--source-language", "aa", "--target-language", "bb")
    command(tmp_path / "pairs.tsv", *names, "-m", apart, "-o", tmp_path / "apart.parquet", *languages)
    plain, turned = (pq.read_table(tmp_path / f"{name}.parquet")["cosine"][0].as_py() for name in ("plain", "apart"))
    assert plain == pytest.approx(-turned, abs=1e-6)
    with pytest.raises(UsageError, match="say of which language"):
        command(tmp_path / "pairs.tsv", *names, "-m", apart, "-o", tmp_path / "x.parquet")


def test_pool_of_vectors_must_be_of_the_sides_language(apart: Path, tmp_path: Path) -> None:
    from pipelines.cli.commands.encode import encode

    pool = tmp_path / "pool.txt"
    pool.write_text("bada\nkefe\nlogi\n")
    (tmp_path / "pairs.tsv").write_text("bada\tkefe\n")
    for language in ("aa", "bb"):
        runner(encode)(pool, "-m", apart, "-o", tmp_path / f"{language}.npy", "--language", language)
    languages = ("--source-language", "aa", "--target-language", "bb")
    arguments = [tmp_path / "pairs.tsv", "--columns", "source,target", "-m", apart, *languages, "--k", 2]
    pools = ("--source-pool", tmp_path / "aa.npy", "--target-pool")
    assert (
        "1 of 1 pairs scored"
        in runner(score)(*arguments, *pools, tmp_path / "bb.npy", "-o", tmp_path / "s.parquet").stdout
    )
    with pytest.raises(UsageError, match="encode the pool with this model"):
        runner(score)(*arguments, *pools, tmp_path / "aa.npy", "-o", tmp_path / "t.parquet")
