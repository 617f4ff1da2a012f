import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.margin import (
    DENOMINATOR_FLOOR,
    LOW_SCORE,
    MARGINS,
    best_neighbours,
    count_floored,
    list_scores,
    margin_scores,
    neighbour_means,
)

cosines = st.floats(-1, 1, width=32)


def reference(cosine: float, source_mean: float, target_mean: float, kind: str) -> float:
    baseline = (source_mean + target_mean) / 2
    if kind == "absolute":
        return round(cosine, 6)
    if kind == "distance":
        return round(cosine - baseline, 6)
    return round(cosine / baseline, 6) if baseline > DENOMINATOR_FLOOR else LOW_SCORE


@given(st.lists(st.tuples(cosines, cosines, cosines), min_size=1), st.sampled_from(["ratio", "distance", "absolute"]))
def test_each_margin_equals_its_formula(rows, kind):
    cosine, source, target = np.array(rows).T
    expected = [reference(*row, kind) for row in rows]
    assert margin_scores(cosine, source, target, kind) == pytest.approx(expected, abs=1e-6)


def test_zero_denominator_gives_a_finite_low_score_and_is_counted():
    scores = margin_scores([0.5, 0.5, -0.5], [0.0, -0.4, 0.5], [0.0, 0.1, 0.5])
    assert scores.tolist() == [LOW_SCORE, LOW_SCORE, -1.0]
    assert count_floored([0.0, -0.4, 0.5], [0.0, 0.1, 0.5]) == 2


def test_a_denominator_at_the_floor_is_floored_and_counted():
    below, at, above = np.nextafter(DENOMINATOR_FLOOR, 0), DENOMINATOR_FLOOR, np.nextafter(DENOMINATOR_FLOOR, 1)
    means = np.array([below, at, above])
    assert count_floored(means, means) == 2
    assert (margin_scores(0.5, means, means) == LOW_SCORE).tolist() == [True, True, False]
    lists = np.arange(3)[:, None], np.full((3, 1), 0.5, np.float32), means, means[:, None]
    assert (list_scores(*lists) == LOW_SCORE).ravel().tolist() == [True, True, False]
    # Only the mean of the two counts.
    assert count_floored([0.0, 0.0021], [0.002, 0.0]) == 1


def test_means_are_over_the_neighbours_that_were_found():
    lists = np.array([[0.9, 0.5], [0.8, -np.inf], [-np.inf, -np.inf]], dtype=np.float32)
    assert neighbour_means(lists) == pytest.approx([0.7, 0.8, 0.0])


def test_scores_have_six_decimals_and_no_negative_zero():
    scores = margin_scores([1 / 3, -1e-9], [0.5, 0.5], [0.5, 0.5], "absolute")
    assert scores[0] == 0.333333
    assert not np.signbit(scores[1])


def test_unknown_margin_is_named():
    with pytest.raises(ValueError, match=r"unknown margin 'rato'.*ratio, distance, absolute"):
        margin_scores([1.0], [1.0], [1.0], "rato")


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


@given(neighbour_lists(), st.sampled_from(MARGINS))
def test_compiled_scores_are_the_same_bytes(lists, kind):
    neighbours, found, own, other = lists
    scores = margin_scores(np.where(neighbours >= 0, found, 0.0), own[:, None], other, kind)
    expected = np.where(neighbours >= 0, scores, -np.inf)
    assert list_scores(*lists, kind).tobytes() == expected.tobytes()
    places, best = best_neighbours(*lists, kind)
    for row, place in enumerate(places.tolist()):
        order = sorted((-expected[row, j], neighbours[row, j], j) for j in np.flatnonzero(neighbours[row] >= 0))
        assert place == (order[0][2] if order else -1)
        assert best[row] == (expected[row, place] if order else -np.inf)


def test_threads_never_show():
    chance = np.random.default_rng(3)
    lists = (
        chance.integers(-1, 9, (70_000, 3)),
        chance.random((70_000, 3), dtype=np.float32),
        chance.random(70_000),
        chance.random((70_000, 3)),
    )
    assert list_scores(*lists, threads=1).tobytes() == list_scores(*lists, threads=3).tobytes()
    one, many = best_neighbours(*lists, threads=1), best_neighbours(*lists, threads=3)
    assert [a.tobytes() for a in one] == [a.tobytes() for a in many]


def test_unknown_margin_of_lists_is_named():
    with pytest.raises(ValueError, match="unknown margin 'rato'"):
        list_scores(np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), np.zeros(1), np.zeros((1, 1)), "rato")
