import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.errors import UsageError
from mining.evaluation import Gold, cross_validate
from mining.evaluation.gold import keep_gold
from mining.evaluation.tables import Ledger, join_pairs
from mining.evaluation.threshold import assign_folds, hash_ids, hash_pairs


def table(rows: list[tuple[str, str, float]]) -> pa.Table:
    source, target, score = (list(column) for column in zip(*rows, strict=True))
    return pa.table({"score": score, "source_id": source, "target_id": target})


GOLD = Gold.from_pairs([(f"s{i}", f"t{i}") for i in range(23)], path="x.gold")
RIGHT = [(f"s{i}", f"t{i}", 1.5 - i / 100) for i in range(20)]
WRONG = [(f"s{i}", f"u{i}", 1.4 - i / 50) for i in range(40, 80)]


@given(st.lists(st.text(max_size=12), max_size=30))
def test_hash_does_not_depend_on_neighbours(ids: list[str]) -> None:
    together = hash_ids(pa.array(ids, pa.string()))
    alone = [int(hash_ids(pa.array([i]))[0]) for i in ids]
    assert together.tolist() == alone
    sliced = pa.array(["x", *ids, "yy"]).slice(1, len(ids))
    assert hash_ids(sliced).tolist() == alone


def test_hash_tells_similar_ids_apart() -> None:
    ids = ["", "a", "aa", "ab", "ba", "a\0", "\0a", *(f"de-{i:09d}" for i in range(20_000))]
    values = hash_ids(pa.array(ids))
    assert len(np.unique(values)) == len(ids)
    counts = np.bincount((values % np.uint64(5)).astype(int))
    assert counts.min() > 3800


def test_hash_is_the_same_in_another_process() -> None:
    code = "import pyarrow as pa; from mining.evaluation.threshold import *; print(hash_ids(pa.array(['de-1', 'é'])))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(hash_ids(pa.array(["de-1", "é"])))


def test_folds_are_even_and_pairs_go_with_their_gold() -> None:
    kept = keep_gold(GOLD, Ledger())
    scored = join_pairs(table(RIGHT + WRONG), kept.index)
    gold_fold, mined_fold = assign_folds(kept, scored, 5)
    assert sorted(np.bincount(gold_fold).tolist()) == [4, 4, 5, 5, 5]
    is_gold = scored.gold >= 0
    assert is_gold.sum() == 20
    np.testing.assert_array_equal(mined_fold[is_gold], gold_fold[scored.gold[is_gold]])


def test_wrong_pairs_are_dealt_out_too() -> None:
    rows = [(f"s{i}", f"u{i}", 1.0) for i in range(5000)]
    kept = keep_gold(GOLD, Ledger())
    scored = join_pairs(table(rows), kept.index)
    _, mined_fold = assign_folds(kept, scored, 5)
    assert (scored.gold == -1).all()
    assert np.bincount(mined_fold, minlength=5).min() > 900
    # By both ids: neither all wrong pairs of a source nor all of a target fall into one fold.
    for fixed in ([("s1", f"u{i}", 1.0) for i in range(100)], [(f"s{i}", "u1", 1.0) for i in range(100)]):
        _, mined_fold = assign_folds(kept, join_pairs(table(fixed), kept.index), 5)
        assert np.bincount(mined_fold, minlength=5).min() > 5


def test_each_fold_is_measured_with_its_own_wrong_pairs() -> None:
    rows = [(f"s{i}", f"t{i}", 1.0) for i in range(23)] + [(f"s{i}", f"u{i}", 1.0) for i in range(230)]
    result = cross_validate(table(rows), GOLD, folds=5)
    assert [fold.correct for fold in result.folds] == [fold.gold for fold in result.folds]
    wrong = [fold.extracted - fold.correct for fold in result.folds]
    assert sum(wrong) == 230
    assert min(wrong) > 20


def test_order_of_the_rows_does_not_matter() -> None:
    gold = Gold.from_pairs(list(zip(GOLD.source, GOLD.target, strict=True))[::-1])
    forward = cross_validate(table(RIGHT + WRONG), GOLD, folds=4)
    backward = cross_validate(table((RIGHT + WRONG)[::-1]), gold, folds=4)
    assert forward == backward


def test_perfect_pairs() -> None:
    result = cross_validate(table([(f"s{i}", f"t{i}", 1.0) for i in range(23)]), GOLD, folds=5)
    assert (result.precision, result.recall, result.f1) == (1.0, 1.0, 1.0)
    assert [fold.threshold for fold in result.folds] == [1.0] * 5


def test_threshold_comes_from_the_other_folds() -> None:
    rows = RIGHT + WRONG
    result = cross_validate(table(rows), GOLD, folds=3)
    kept = keep_gold(GOLD, Ledger())
    scored = join_pairs(table(rows), kept.index)
    _, mined_fold = assign_folds(kept, scored, 3)
    for number, fold in enumerate(result.folds):
        assert fold.threshold is not None
        extracted = (mined_fold == number) & (scored.score >= fold.threshold)
        assert fold.extracted == extracted.sum()
        assert fold.correct == (extracted & (scored.gold >= 0)).sum()
    assert result.f1 == pytest.approx(np.mean([fold.f1 for fold in result.folds]))


def test_report_is_plain_json() -> None:
    data = cross_validate(table(RIGHT), GOLD, folds=2).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == sorted(data)
    assert list(data["folds"][0]) == sorted(data["folds"][0])


def test_empty_pairs() -> None:
    empty = pa.table({"score": pa.array([], pa.float64()), "source_id": pa.array([], pa.string())})
    empty = empty.append_column("target_id", pa.array([], pa.string()))
    result = cross_validate(empty, GOLD, folds=2)
    assert (result.f1, result.folds[0].threshold) == (0.0, None)


@pytest.mark.parametrize("folds", [-1, 0, 1, 24])
def test_number_of_folds(folds: int) -> None:
    with pytest.raises(
        UsageError, match=rf"--folds {folds}: x\.gold has 23 distinct gold pairs: use 2 to 23 folds, or"
    ):
        cross_validate(table(RIGHT), GOLD, folds=folds)


def test_a_single_gold_pair_has_no_folds() -> None:
    with pytest.raises(UsageError, match=r"--folds 2: gold has 1 distinct gold pairs: use no folds"):
        cross_validate(table(RIGHT), Gold.from_pairs([("s1", "t1")]), folds=2)
    with pytest.raises(UsageError, match=r"gold has 2 distinct gold pairs: use 2 to 2 folds, or none"):
        cross_validate(table(RIGHT), Gold.from_pairs([("s1", "t1"), ("s2", "t2")]), folds=3)


def test_folds_are_those_of_other_versions() -> None:
    one, other = hash_ids(pa.array(["de-1", "en-1"]))
    assert (int(one), int(other)) == (17196509364827429449, 8064890640403144759)
    assert int(hash_pairs(np.array([one]), np.array([other]))[0]) == 15834844959093706831
    assert int(hash_pairs(np.array([other]), np.array([one]))[0]) != 15834844959093706831


def test_shares_have_six_decimals() -> None:
    data = cross_validate(table([("s0", "t0", 1.0), ("s1", "u", 1.0)]), GOLD, folds=2).to_dict()
    values = [entry[name] for entry in (data, *data["folds"]) for name in ("f1", "precision", "recall")]
    assert values == [round(value, 6) for value in values]
    assert any(value != round(value, 5) for value in values)
