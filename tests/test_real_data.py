"""Real text: train for a moment, mine a small BUCC task, and compare shards."""

import itertools

import pytest

from mining.config import MineConfig
from mining.settings import override, validate
from mining.training import TrainConfig, train
from pipelines.mine import run_mine
from tests.pipelines.conftest import contents

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def german(data, tmp_path_factory):
    """A model trained on the first 60,000 pairs."""
    import lzma

    folder = tmp_path_factory.mktemp("german")
    with lzma.open(data / "bitext" / "en-de.tsv.xz", "rt", encoding="utf-8", newline="\n") as lines:
        (folder / "bitext.tsv").write_text("".join(itertools.islice(lines, 60_000)), encoding="utf-8")
    settings = {
        "bitext": {"path": str(folder / "bitext.tsv"), "columns": ["source", "target", "domain"]},
        "model": str(folder / "model"),
        "vocabulary": 8000,
        "dim": 100,
        "epochs": 3,
        "batch": 512,
        "learning_rate": 0.01,
    }
    return train(TrainConfig.model_validate(settings))


def test_a_bucc_task_is_mined_the_same_in_one_shard_and_in_seven(data, german, tmp_path):
    bucc = data / "bucc"
    settings = {
        "source": {"path": str(bucc / "de-en.sample.de"), "columns": ["id", "text"]},
        "target": {"path": str(bucc / "de-en.sample.en"), "columns": ["id", "text"]},
        "gold": str(bucc / "de-en.sample.gold-domains"),
        "model": str(german),
    }
    runs = []
    for name, rows, threads in (("one", 100_000, 2), ("seven", 450, 1)):
        changes = {"output": str(tmp_path / name), "shard.rows": rows, "runner.threads": threads}
        runs.append(run_mine(validate(MineConfig, override(settings, changes), "test"), quiet=True))
    assert contents(runs[0].folder) == contents(runs[1].folder)
    assert len(list((runs[1].folder / "work" / "shard").glob("source-*.parquet"))) == 7
    bucc_metrics = runs[0].metrics["bucc"]
    assert bucc_metrics["counts"]["gold"] == 150
    assert bucc_metrics["f1"] > 0.6
    assert set(bucc_metrics["domains"]) == {"news.ntrex"}


@pytest.mark.parametrize("name", ["ar", "de", "es", "fr", "ru", "tr", "zh"])
def test_every_row_of_the_bucc_files_is_usable(data, name):
    from mining.corpus import CorpusSpec, read_rows

    for side in (name, "en"):
        spec = CorpusSpec(path=str(data / "bucc" / f"{name}-en.training.{side}"), columns=["id", "text"])
        assert all(row.reason is None for row in read_rows(spec))
