"""Real text: train for a moment, mine a small BUCC task, and compare shards."""

import itertools

import pytest

from mining.config.base import override, validate
from mining.config.mine import MineConfig
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


@pytest.mark.parametrize(("pair", "largest"), [("deu-eng", 4), ("fra-eng", 8), ("rus-eng", 16), ("spa-eng", 20)])
def test_the_bundled_model_finds_translations_of_tatoeba(data, pair, largest):
    from mining import load_encoder
    from mining.evaluation import tatoeba_error
    from mining.evaluation.tatoeba import find_aligned, read_aligned

    paths = [str(data / "tatoeba" / f"tatoeba.{pair}.{side}") for side in pair.split("-")]
    ((name, spec),) = find_aligned(paths).items()
    test = read_aligned(name, spec)
    result = tatoeba_error(load_encoder(), test.source, test.target)
    assert result.pairs >= 900
    assert result.unencoded == 0
    assert result.error < largest


def test_the_bundled_model_agrees_with_judged_similarity(data):
    from mining import load_encoder
    from mining.evaluation.sts import find_sts, read_sts, sts_correlations

    result = sts_correlations(load_encoder(), [read_sts(path) for path in find_sts([data / "sts"])])
    assert result.all.defined == result.all.sets == 17
    assert result.all.pearson > 66


def test_the_bundled_model_mines_the_sample(data):
    from mining import load_encoder
    from mining.corpus import CorpusSpec
    from mining.evaluation.mining import evaluate_mining, read_mining_task

    stem = data / "bucc" / "fr-en.sample"
    french, english = (CorpusSpec(path=f"{stem}.{side}", columns=["id", "text"]) for side in ("fr", "en"))
    results = evaluate_mining(read_mining_task(french, english, f"{stem}.gold"), load_encoder(), folds=None)
    assert results["ratio"].f1 > 0.55
    assert results["ratio"].f1 > results["absolute"].f1
