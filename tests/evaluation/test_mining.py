import json
import random

import pytest

from mining import mine
from mining.corpus import CorpusSpec
from mining.encoder import load_encoder
from mining.errors import InputError, UsageError
from mining.evaluation import Gold, evaluate_pairs
from mining.evaluation.mining import MiningTask, evaluate_mining, read_mining_task

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "i", "o", "u")]


@pytest.fixture(scope="module")
def made_up():
    """60 source and 70 target sentences, 40 of them translations, by ids."""
    chance = random.Random(3)
    sentences = [" ".join(chance.choices(WORDS, k=6)) for _ in range(90)]
    source = {f"s{i}": text for i, text in enumerate(sentences[:60])}
    target = {f"t{i}": " ".join(f"x{w}" for w in text.split()) for i, text in enumerate(sentences) if i >= 20}
    gold = [(f"s{i}", f"t{i}", "even" if i % 2 == 0 else "odd") for i in range(20, 60)]
    return source, target, gold


def evaluate(encoder, source, target, gold, *more, **options):
    texts, ids = (list(source.values()), list(target.values())), (list(source), list(target))
    return evaluate_mining(MiningTask(*texts, Gold.from_pairs(gold), *ids), encoder, *more, **options)


def test_same_pairs_as_mine(bag, made_up):
    source, target, gold = made_up
    for strategy in ("max", "forward"):
        results = evaluate(bag, source, target, gold, ("ratio", "distance", "absolute"), strategy, k=3)
        for margin, result in results.items():
            pairs = mine(
                list(source.values()),
                list(target.values()),
                bag,
                3,
                margin,
                strategy,
                source_ids=list(source),
                target_ids=list(target),
            )
            assert result.tuned == evaluate_pairs(pairs, Gold.from_pairs(gold), threshold="tune")
            assert len(result.held_out.folds) == 5
    assert results["ratio"].f1 > 0.9
    assert set(results["ratio"].tuned.domains) == {"even", "odd"}


def test_gold_ids_of_dropped_rows_count(bag, made_up):
    source, target, gold = made_up
    # s-copy and t-copy stand for s20 and t21, which come first; the blank and the empty row can
    # never be found.
    source = {**source, "s-copy": f" {source['s20']}", "s-blank": " "}
    target = {**target, "t-copy": target["t21"], "t-blank": ""}
    changed = [("s-copy", "t20", "even"), ("s21", "t-copy", "odd"), *gold[2:], ("s-blank", "t-blank", "odd")]
    before = evaluate(bag, *made_up, folds=None)["ratio"].tuned
    after = evaluate(bag, source, target, changed, folds=None)["ratio"].tuned
    assert after.counts["correct"] == before.counts["correct"]
    assert after.missed["source_blank"]["count"] == 1
    assert after.counts["gold_kept"] == before.counts["gold_kept"] + 1


def test_without_ids_positions_serve_and_folds_are_optional(bag, made_up):
    source, target, gold = made_up
    places = {name: str(i) for side in (source, target) for i, name in enumerate(side)}
    numbered = Gold.from_pairs([(places[s], places[t]) for s, t, _ in gold])
    results = evaluate_mining(MiningTask(list(source.values()), list(target.values()), numbered), bag, folds=None)
    assert list(results) == ["ratio", "absolute"]
    assert results["ratio"].held_out is None
    assert results["ratio"].tuned.domains is None
    assert results["ratio"].f1 == evaluate(bag, *made_up)["ratio"].f1
    assert results["ratio"].to_dict()["cross_validation"] is None


def test_a_language_may_have_its_own_encoder(bag, made_up):
    class Strange:
        dim, hash = bag.dim, "strange"

        def encode(self, texts, threads=0):
            return bag.encode([text[::-1] for text in texts], threads)

    source, target, gold = made_up
    reversed_target = {name: text[::-1] for name, text in target.items()}
    found = evaluate(bag, source, reversed_target, gold, target_encoder=Strange())
    assert found["ratio"].f1 == evaluate(bag, *made_up)["ratio"].f1


def test_errors(bag, made_up):
    source, target, gold = made_up
    with pytest.raises(ValueError, match="unknown margin 'cosine'"):
        evaluate(bag, source, target, gold, ("cosine",))
    with pytest.raises(InputError, match="1 of 41 source ids"):
        evaluate(bag, source, target, [*gold, ("s99", "t20", "odd")])
    with pytest.raises(UsageError, match="k = 61 nearest neighbours, but the source side has only 60"):
        evaluate(bag, source, target, gold, k=61)
    with pytest.raises(UsageError, match="use 2 to 40 folds"):
        evaluate(bag, source, target, gold, folds=41)


def test_same_figures_as_a_run(bitext, tiny_model, task, tmp_path):
    columns = ("--columns", "id,text")
    run = ("--source", task.source, "--target", task.target, "--gold", task.gold, "--model", tiny_model, *columns)
    assert bitext("mine", *run, "--output", tmp_path / "run", "--quiet").code == 0
    whole = json.loads((tmp_path / "run" / "metrics.json").read_text())["bucc"]
    specs = [CorpusSpec(path=str(path), columns=["id", "text"]) for path in (task.source, task.target)]
    result = evaluate_mining(read_mining_task(*specs, task.gold), load_encoder(tiny_model))["ratio"].to_dict()
    for name in ("f1", "precision", "recall", "threshold"):
        assert result[name] == whole[name]
    assert result["counts"]["correct"] == whole["counts"]["correct"]


def test_an_id_that_stands_twice_is_named(tmp_path):
    (tmp_path / "a.tsv").write_text("1\ta\n1\tb\n")
    (tmp_path / "b.tsv").write_text("")
    (tmp_path / "gold").write_text("1\t1\n")
    spec, empty = (CorpusSpec(path=str(tmp_path / name), columns=["id", "text"]) for name in ("a.tsv", "b.tsv"))
    with pytest.raises(InputError, match=r"a\.tsv, line 2: the id '1' stands twice"):
        read_mining_task(spec, spec, tmp_path / "gold")
    with pytest.raises(InputError, match=r"b\.tsv: holds no sentences"):
        read_mining_task(empty, empty, tmp_path / "gold")
