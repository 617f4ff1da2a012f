from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining import Gold, MiningTask, evaluate_mining, load_encoder, mine, score_pairs
from mining.margins import MARGINS
from mining.margins.ratio import DENOMINATOR_FLOOR
from mining.neighbour_scores import UNDEFINED_SCORE, best_neighbours, list_scores, neighbour_means, pair_scores

cosines = st.floats(-1, 1, width=32)


def reference(cosine: float, source_mean: float, target_mean: float, kind: str) -> float:
    baseline = (source_mean + target_mean) / 2
    if kind == "absolute":
        return round(cosine, 6)
    if kind == "distance":
        return round(cosine - baseline, 6)
    return round(cosine / baseline, 6) if baseline > DENOMINATOR_FLOOR else UNDEFINED_SCORE


@given(st.lists(st.tuples(cosines, cosines, cosines), min_size=1), st.sampled_from(["ratio", "distance", "absolute"]))
def test_each_margin_equals_its_formula(rows, kind):
    cosine, source, target = np.array(rows).T
    expected = [reference(*row, kind) for row in rows]
    assert pair_scores(cosine, source, target, kind).values == pytest.approx(expected, abs=1e-6)


def test_zero_denominator_gives_a_finite_low_score_and_is_counted():
    scores = pair_scores([0.5, 0.5, -0.5], [0.0, -0.4, 0.5], [0.0, 0.1, 0.5], "ratio")
    assert scores.values.tolist() == [UNDEFINED_SCORE, UNDEFINED_SCORE, -1.0]
    assert scores.undefined == 2
    assert pair_scores([0.5], [0.0], [0.0], "distance").undefined == 0


def test_a_denominator_at_the_floor_is_undefined_and_counted():
    below, at, above = np.nextafter(DENOMINATOR_FLOOR, 0), DENOMINATOR_FLOOR, np.nextafter(DENOMINATOR_FLOOR, 1)
    means = np.array([below, at, above])
    scores = pair_scores([0.5] * 3, means, means, "ratio")
    assert (scores.values == UNDEFINED_SCORE).tolist() == [True, True, False]
    assert scores.undefined == 2
    lists = np.array([[0], [1], [-1]]), np.full((3, 1), 0.5, np.float32), means, means[:, None]
    assert best_neighbours(*lists, "ratio").undefined == list_scores(*lists, "ratio").undefined == 2
    # Only the mean of the two counts.
    assert pair_scores([0.5, 0.5], [0.0, 0.0021], [0.002, 0.0], "ratio").undefined == 1


def test_means_are_over_the_neighbours_that_were_found():
    lists = np.array([[0.9, 0.5], [0.8, -np.inf], [-np.inf, -np.inf]], dtype=np.float32)
    assert neighbour_means(lists) == pytest.approx([0.7, 0.8, 0.0])


def test_scores_have_six_decimals_and_no_negative_zero():
    scores, _ = pair_scores([1 / 3, -1e-9], [0.5, 0.5], [0.5, 0.5], "absolute")
    assert scores[0] == 0.333333
    assert not np.signbit(scores[1])


def test_unknown_margin_is_named():
    with pytest.raises(ValueError, match=r"unknown margin 'rato': did you mean 'ratio'"):
        pair_scores([1.0], [1.0], [1.0], "rato")
    with pytest.raises(ValueError, match=r"unknown margin 'cosine': use one of absolute, distance, ratio"):
        list_scores(np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), np.zeros(1), np.zeros((1, 1)), "cosine")


@st.composite
def neighbour_lists(draw):
    rows, k = draw(st.integers(0, 5)), draw(st.integers(0, 4))
    ids = [draw(st.lists(st.integers(-1, 30), min_size=k, max_size=k)) for _ in range(rows)]
    # Few cosines and means, so that scores are tied and denominators near the floor.
    value = st.sampled_from([-1.0, 0.0, 5e-4, 1e-3, 0.25, 1 / 3, 0.7]) | st.floats(-1, 1, width=32)
    numbers = [draw(st.lists(value, min_size=rows * k, max_size=rows * k)) for _ in range(2)]
    own = draw(st.lists(value, min_size=rows, max_size=rows))
    shape = (rows, k)
    neighbours = np.array(ids, dtype=np.int64).reshape(shape)
    found = np.where(neighbours >= 0, np.array(numbers[0]).reshape(shape), -np.inf).astype(np.float32)
    return neighbours, found, np.array(own, dtype=np.float64), np.array(numbers[1]).reshape(shape)


def by_python(cosine: float, own: float, other: float, kind: str) -> float:
    """The score of one pair by the margin's own Python, rounded as numpy rounds."""
    margin = MARGINS[kind]
    with np.errstate(all="ignore"):
        score = getattr(margin, "py_func", margin)(np.float64(cosine), np.float64(own), np.float64(other))
    return float(np.round(UNDEFINED_SCORE if np.isnan(score) else score, 6) + 0.0)


@given(neighbour_lists(), st.sampled_from(MARGINS.names()))
def test_compiled_scores_are_the_same_bytes(lists, kind):
    neighbours, found, own, other = lists
    expected = np.full(neighbours.shape, -np.inf)
    for row, rank in np.argwhere(neighbours >= 0):
        expected[row, rank] = by_python(found[row, rank], own[row], other[row, rank], kind)
    assert list_scores(*lists, kind).values.tobytes() == expected.tobytes()
    indices, best, _ = best_neighbours(*lists, kind)
    for row, index in enumerate(indices.tolist()):
        order = sorted((-expected[row, j], neighbours[row, j], j) for j in np.flatnonzero(neighbours[row] >= 0))
        assert index == (order[0][2] if order else -1)
        assert best[row] == (expected[row, index] if order else -np.inf)


def test_threads_never_show():
    chance = np.random.default_rng(3)
    lists = (
        chance.integers(-1, 9, (70_000, 3)),
        chance.random((70_000, 3), dtype=np.float32),
        np.where(chance.random(70_000) < 0.1, -1.0, chance.random(70_000)),
        chance.random((70_000, 3)),
    )
    one, many = (list_scores(*lists, "ratio", threads) for threads in (1, 3))
    assert one.values.tobytes() == many.values.tobytes()
    assert one.undefined == many.undefined == best_neighbours(*lists, "ratio", 3).undefined > 0
    one, many = (best_neighbours(*lists, "ratio", threads) for threads in (1, 3))
    assert [np.asarray(a).tobytes() for a in one] == [np.asarray(a).tobytes() for a in many]


NEW_MARGIN = '''"""A margin of tomorrow."""

from mining.compiled import compiled
from mining.margins import MARGINS


@MARGINS.register("squared")
@compiled
def squared(cosine: float, own_mean: float, other_mean: float) -> float:
    """The square of the cosine, less the product of the means."""
    return cosine * cosine - own_mean * other_mean
'''


@pytest.fixture
def squared(one_more: Callable[..., str]) -> str:
    """The name of a margin that is nothing but one more file in the package."""
    return one_more(MARGINS, "squared", NEW_MARGIN)


def by_square(pair):
    return pytest.approx(pair["cosine"] ** 2 - pair["source_mean"] * pair["target_mean"], abs=5e-6)


def test_a_new_margin_is_one_file(squared, task, tiny_model, bitext, tmp_path):
    encoder = load_encoder(tiny_model)
    source, target = ([text for _, text in rows] for rows in (task.source_rows, task.target_rows))
    ids = [[name for name, _ in rows] for rows in (task.source_rows, task.target_rows)]
    pairs = mine(source, target, encoder, margin=squared, source_ids=ids[0], target_ids=ids[1])
    assert all(pair["score"] == by_square(pair) for pair in pairs.to_pylist())
    scores = score_pairs(source[:9], target[:9], encoder, source_pool=source, target_pool=target, margin=squared)
    assert all(pair["margin"] == by_square(pair) for pair in scores.to_pylist() if pair["reason"] is None)
    measured = evaluate_mining(MiningTask(source, target, Gold.from_pairs(task.gold_pairs), *ids), encoder, [squared])
    assert measured[squared].f1 > 0.5
    sides = ("--source", task.source, "--target", task.target, "--columns", "id,text", "--model", tiny_model)
    for name, more in (("plain", ()), ("gold", ("--gold", task.gold))):
        ended = bitext("mine", *sides, *more, "--margin", squared, "--output", tmp_path / name, "--quiet")
        assert ended.code == 0, ended.err
        mined = pq.read_table(tmp_path / name / "pairs.parquet")
        assert mined.equals(pairs.slice(0, len(mined)))
    assert len(mined) < len(pairs)
    assert bitext("evaluate", "mining", *sides, "--gold", task.gold, "--margin", squared).code == 0
    for command in (("mine",), ("score",), ("evaluate", "mining")):
        assert squared in bitext(*command, "--help").out
