"""``benchmarks/report.py`` on data of the same layout as the real one, with an encoder made up."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
WORDS = ["dog", "cat", "house", "tree", "sky", "moon", "sun", "river"]


def lines(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Two mining tasks, three Tatoeba sets and three data sets of STS; the folder of a model of de
    and en."""
    pairs = [(a, b) for a in WORDS for b in WORDS if a < b]
    for language in ("de", "fr"):
        stem = f"{language}-en.training"
        lines(tmp_path / "bucc" / f"{stem}.{language}", [f"s{i}\tx{a} x{b}" for i, (a, b) in enumerate(pairs)])
        lines(tmp_path / "bucc" / f"{stem}.en", [f"t{i}\t{a} {b}" for i, (a, b) in enumerate(pairs)])
        lines(tmp_path / "bucc" / f"{stem}.gold-domains", [f"s{i}\tt{i}\tnews.{'ab'[i % 2]}" for i in range(20)])
    for code in ("deu", "fra", "ita"):
        lines(tmp_path / "tatoeba" / f"tatoeba.{code}-eng.{code}", [f"x{word}" for word in WORDS])
        lines(tmp_path / "tatoeba" / f"tatoeba.{code}-eng.eng", WORDS)
    for name in ("STS12.MSRpar", "STS17.track3.es-es", "STS17.track5.en-en"):
        lines(tmp_path / "sts" / f"{name}.tsv", ["5\tdog cat\tdog cat", "3\tdog cat\tdog tree", "0\tdog\tsky"])
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"languages": ["en", "de"], "shared": True}))
    monkeypatch.setenv("BITEXT_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def report(bag_model, monkeypatch, capsys):
    """Run the script in this process; returns what it printed."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("report", "report_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["report.py", *map(str, arguments)])
        importlib.import_module("report").main()
        return capsys.readouterr().out

    return run


def test_a_model_is_measured_on_its_languages(report, measured):
    out = measured / "reports" / "de.json"
    report("--model", measured / "model", "--output", out, "--threads", "1")
    data = json.loads(out.read_text())
    assert (data["name"], data["languages"], data["dim"], data["hash"]) == ("model", ["en", "de"], 24, "bag-24")
    assert list(data["mining"]) == ["de"]
    assert set(data["mining"]["de"]) == {"absolute", "distance", "ratio"}
    assert data["mining"]["de"]["ratio"]["domains"]["news.a"]["gold"] == 10
    assert list(data["tatoeba"]) == ["deu-eng"]
    assert data["tatoeba"]["deu-eng"]["error"] == 0
    assert list(data["sts"]["sets"]) == ["STS12.MSRpar", "STS17.track5.en-en"]


def test_tables_compare_models_with_what_is_published(report, measured):
    paths = [measured / "a.json", measured / "b.json"]
    report("--model", measured / "model", "--output", paths[0], "--name", "first")
    report("--model", measured / "model", "--output", paths[1], "--languages", "en,de,fr", "--name", "second")
    first, second = (json.loads(path.read_text()) for path in paths)
    tables = report("--tables", *paths)
    f1 = [f"{100 * second['mining'][c]['ratio'][key]:.2f}" for c in ("de", "fr") for key in ("f1", "held_out_f1")]
    assert f"| second | {f1[0]} ({f1[1]}) | {f1[2]} ({f1[3]}) |" in tables
    assert f"| first | {f1[0]} ({f1[1]}) | - |" in tables
    assert "| *SP (20k)* (Wieting et al. 2019, table 3) | 77.00 | 76.30 |" in tables
    assert "| *P-SP, 1024 dimensions* (Wieting et al. 2022, table 4) | 1.50 | 5.40 |" in tables
    assert "| second | 0.00 (0.00 / 0.00) | 0.00 (0.00 / 0.00) |" in tables
    assert "| *LASER* (Wieting et al. 2022, table 2) | 63.10 / - | - | - |" in tables
    pearson = f"{first['sts']['sets']['STS12.MSRpar']['pearson']:.2f}"
    assert f"| STS12.MSRpar | {pearson} | {pearson} |" in tables


def test_separate_languages_get_encoders_of_their_own(report, measured, bag_model):
    (measured / "model" / "config.json").write_text(json.dumps({"languages": ["en", "de"], "shared": False}))
    report("--model", measured / "model", "--output", measured / "a.json", "--dtype", "int8")
    assert [loaded["language"] for loaded in bag_model] == ["en", "de"]
    assert {loaded["dtype"] for loaded in bag_model} == {"int8"}


def test_usage(report, measured):
    with pytest.raises(SystemExit):
        report("--model", measured / "model")
    with pytest.raises(SystemExit, match=r"error: .*nowhere\.json"):
        report("--tables", measured / "nowhere.json")
