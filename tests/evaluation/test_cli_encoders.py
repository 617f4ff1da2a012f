"""``bitext evaluate tatoeba``, ``sts`` and ``mining`` from flags to the last line."""

import json

import pytest


def lines(path, *rows):
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def aligned(tmp_path):
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    lines(folder / "tatoeba.deu-eng.deu", "xdog xcat", "xhouse", "xtree xsky")
    lines(folder / "tatoeba.deu-eng.eng", "dog cat", "house", "tree sky")
    lines(folder / "tatoeba.fra-eng.fra", "dog", "nonsense")
    lines(folder / "tatoeba.fra-eng.eng", "dog", "")
    return folder


def test_tatoeba(bitext, bag_model, aligned, tmp_path):
    ended = bitext("evaluate", "tatoeba", "--model", "m", aligned, "--json", tmp_path / "t.json", "--dim", "8")
    assert ended.code == 0
    assert ended.last_line == f"mean error 25.00% over 2 sets; metrics in {tmp_path / 't.json'}"
    assert "deu-eng" in ended.out
    data = json.loads((tmp_path / "t.json").read_text())
    assert data["model"] == "bag-24"
    assert data["mean"] == {"backward": 25.0, "error": 25.0, "forward": 25.0}
    assert data["sets"]["fra-eng"]["unencoded"] == 1
    assert bag_model == [{"path": "m", "device": "cpu", "dim": 8, "dtype": "float32", "language": None}]


def test_tatoeba_of_a_bitext(bitext, bag_model, tmp_path):
    path = lines(tmp_path / "dev.tsv", "dog\txdog", "cat\txcat")
    assert bitext("evaluate", "tatoeba", path, "--columns", "source,target").last_line == "mean error 0.00% over 1 set"
    assert bag_model[0]["path"] is None


def test_each_side_may_have_its_language(bitext, bag_model, aligned):
    file = aligned / "tatoeba.deu-eng.deu"
    assert bitext("evaluate", "tatoeba", file, "--source-language", "de", "--target-language", "en").code == 0
    assert [loaded["language"] for loaded in bag_model] == ["de", "en"]


@pytest.fixture
def judged(tmp_path):
    folder = tmp_path / "sts"
    folder.mkdir()
    lines(folder / "STS12.one.tsv", "5\tdog cat\tdog cat", "3\tdog cat\tdog tree", "0\tdog\tsky tree")
    lines(folder / "STS12.flat.tsv", "5\tdog\tdog", "3\tcat\tcat")
    lines(folder / "STS13.two.tsv", "0\tdog cat\tdog cat", "5\tdog\t", "3\tsky house\tdog house")
    return folder


def test_sts(bitext, bag_model, judged, tmp_path):
    ended = bitext("evaluate", "sts", "--model", "m", judged, "--json", tmp_path / "s.json")
    assert ended.code == 0
    data = json.loads((tmp_path / "s.json").read_text())
    assert data["model"] == "bag-24"
    assert data["sets"]["STS12.flat"]["pearson"] is None
    assert data["sets"]["STS13.two"] == {**data["sets"]["STS13.two"], "unencoded": 1, "spearman": -100.0}
    assert data["groups"]["STS12"]["pearson"] == data["sets"]["STS12.one"]["pearson"] > 50
    assert "undefined" in ended.out
    assert "1 of 2" in ended.out
    mean = data["all"]["pearson"]
    assert ended.last_line == f"mean Pearson {mean:.2f} over 2 of 3 data sets; metrics in {tmp_path / 's.json'}"


def test_sts_without_any_correlation(bitext, bag_model, judged):
    ended = bitext("evaluate", "sts", judged / "STS12.flat.tsv")
    assert ended.last_line == "mean Pearson undefined over 0 of 1 data set"


def test_faulty_rows_are_named(bitext, bag_model, judged):
    lines(judged / "STS12.bad.tsv", "5\ta\tb", "high\ta\tb")
    ended = bitext("evaluate", "sts", judged)
    assert ended.code == 1
    assert "STS12.bad.tsv, line 2: 'high' is no judgement" in ended.err
    assert bag_model == []


@pytest.fixture
def piles(tmp_path):
    words = ["dog", "cat", "house", "tree", "sky", "moon", "sun", "river", "hill", "road"]
    pairs = [(a, b) for a in words for b in words if a < b]
    source = lines(tmp_path / "s.tsv", *(f"s{i}\tx{a} x{b}" for i, (a, b) in enumerate(pairs)))
    target = lines(tmp_path / "t.tsv", *(f"t{i}\t{a} {b}" for i, (a, b) in enumerate(pairs)))
    gold = lines(tmp_path / "gold", *(f"s{i}\tt{i}\t{a}" for i, (a, _) in enumerate(pairs)))
    return "--source", source, "--target", target, "--gold", gold, "--columns", "id,text"


def test_mining(bitext, bag_model, piles, tmp_path):
    ended = bitext("evaluate", "mining", *piles, "--margin", "ratio,distance", "--json", tmp_path / "m.json")
    assert ended.code == 0
    data = json.loads((tmp_path / "m.json").read_text())
    assert set(data["margins"]) == {"ratio", "distance"}
    assert data["margins"]["ratio"]["f1"] == 1.0
    assert (data["k"], data["strategy"], data["model"]) == (4, "max", "bag-24")
    assert ended.last_line.startswith("F1 100.00% by the ratio margin at threshold ")
    assert "recall per gold domain" in ended.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--margin", "ratio,sum"), "unknown margin 'sum': use one of absolute, distance, ratio"),
        (("--strategy", "best"), "--strategy: Input should be 'forward'"),
        (("--k", "46"), "k = 46 nearest neighbours"),
        (("--folds", "1"), "use 2 to 45 folds"),
        (("--json", "no/such/folder/m.json"), "--json no/such/folder/m.json: there is no folder no/such/folder"),
    ],
)
def test_bad_flags(bitext, bag_model, piles, flags, message):
    ended = bitext("evaluate", "mining", *piles, *flags)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize("command", ["bucc", "mining", "tatoeba", "sts"])
def test_help_has_examples(bitext, command):
    assert "Examples" in bitext("evaluate", command, "--help").out


@pytest.mark.parametrize("command", ["sts", "tatoeba"])
def test_metrics_never_take_the_place_of_an_input(bitext, bag_model, judged, aligned, command):
    folder, name = (judged, "STS13.two.tsv") if command == "sts" else (aligned, "tatoeba.fra-eng.fra")
    before = (folder / name).read_bytes()
    ended = bitext("evaluate", command, folder, "--json", folder / name)
    assert ended.code == 2
    assert "is the input as well: name another output" in ended.err
    assert (folder / name).read_bytes() == before


def test_a_name_that_is_no_utf8_is_shown_and_written(bitext, bag_model, judged, tmp_path):
    (judged / "STS13.two.tsv").rename(judged / "caf\udce9.two.tsv")
    ended = bitext("evaluate", "sts", judged, "--json", tmp_path / "s.json")
    assert ended.code == 0
    assert "caf\\xe9" in ended.out
    assert "caf\\xe9.two" in json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["sets"]
