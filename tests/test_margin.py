import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.margin import DENOMINATOR_FLOOR, LOW_SCORE, count_floored, margin_scores, neighbour_means

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
