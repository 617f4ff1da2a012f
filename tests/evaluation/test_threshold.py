import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.evaluation.threshold import best_threshold, best_threshold_reference, midpoint, precision_recall_f1

six_decimals = st.integers(-2_000_000, 2_000_000).map(lambda n: n / 1e6)
tied_scores = st.sampled_from([-0.5, 0.0, 0.1, 0.100001, 0.3, 1.2, 1.200001])
ranked = st.lists(st.tuples(st.one_of(six_decimals, tied_scores), st.booleans()), max_size=40)


@given(ranked, st.integers(0, 5))
def test_equals_the_reference(pairs: list[tuple[float, bool]], not_mined: int) -> None:
    scores, correct = [score for score, _ in pairs], [is_correct for _, is_correct in pairs]
    n_gold = sum(correct) + not_mined
    assert best_threshold(scores, correct, n_gold) == best_threshold_reference(scores, correct, n_gold)


@given(ranked, st.integers(0, 5))
def test_extraction_at_the_threshold_gives_the_reported_counts(pairs: list[tuple[float, bool]], not_mined: int) -> None:
    scores = np.array([score for score, _ in pairs])
    correct = np.array([is_correct for _, is_correct in pairs], dtype=bool)
    best = best_threshold(scores, correct, int(correct.sum()) + not_mined)
    if best.threshold is None:
        assert len(pairs) == 0
        return
    extracted = scores >= best.threshold
    assert (int(extracted.sum()), int(correct[extracted].sum())) == (best.extracted, best.correct)
    assert best.threshold == round(best.threshold, 7)


@given(ranked)
def test_order_does_not_matter(pairs: list[tuple[float, bool]]) -> None:
    forward = best_threshold([s for s, _ in pairs], [c for _, c in pairs], len(pairs))
    backward = best_threshold([s for s, _ in pairs[::-1]], [c for _, c in pairs[::-1]], len(pairs))
    assert forward == backward


def test_threshold_lies_midway_to_the_next_lower_score() -> None:
    best = best_threshold([1.2, 1.1, 0.9, 0.5], [True, True, False, False], 2)
    assert best.threshold == 1.0
    assert (best.precision, best.recall, best.f1) == (1.0, 1.0, 1.0)


def test_the_whole_list_may_be_best() -> None:
    best = best_threshold([1.2, 0.9], [True, True], 2)
    assert best.threshold == 0.9
    assert best.extracted == 2


def test_tied_scores_stay_together() -> None:
    # Cut inside the tie, F1 would be 1; with `>=` all three come.
    best = best_threshold([1.0, 1.0, 1.0, 0.2], [True, False, False, False], 1)
    assert best.extracted == 3
    assert best.f1 == pytest.approx(0.5)


def test_threshold_may_be_negative() -> None:
    best = best_threshold([-0.1, -0.2, -0.5], [True, True, False], 2)
    assert best.threshold == -0.35


def test_neighbouring_six_decimal_scores_are_separated() -> None:
    best = best_threshold([1.000001, 1.000000], [True, False], 1)
    assert best.threshold == 1.0000005
    assert best.extracted == 1


def test_neighbouring_floats_are_separated() -> None:
    low = 0.1
    high = math.nextafter(low, 1)
    assert midpoint(high, low) == high
    assert midpoint(1.0, -math.inf) == 1.0
    assert midpoint(0.123456789, 0.1) == 0.1117284


def test_of_equal_f1_the_highest_threshold_wins() -> None:
    # 1 of 1 with 3 gold, and 2 of 5 with 3 gold: both F1 = 0.5.
    best = best_threshold([5, 4, 3, 2, 1], [True, False, False, False, True], 3)
    assert best.extracted == 1


def test_no_correct_pair_gives_zero() -> None:
    best = best_threshold([1.0, 0.5], [False, False], 4)
    assert (best.precision, best.recall, best.f1, best.correct) == (0.0, 0.0, 0.0, 0)
    assert best.threshold == 0.75


@pytest.mark.parametrize("n_gold", [0, 3])
def test_empty_input(n_gold: int) -> None:
    best = best_threshold([], [], n_gold)
    assert best.threshold is None
    assert (best.f1, best.extracted) == (0.0, 0)


def test_no_gold() -> None:
    assert best_threshold([1.0], [False], 0).f1 == 0.0
    assert precision_recall_f1(0, 0, 0) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("scores", "correct", "n_gold", "message"),
    [
        ([1.0, math.nan], [True, False], 1, "a score is NaN or infinite"),
        ([1.0, math.inf], [True, False], 1, "a score is NaN or infinite"),
        ([-math.inf], [True], 1, "a score is NaN or infinite"),
        ([1.0], [True, False], 1, "must be one value a pair"),
        ([1.0, 1.0], [True, True], 1, "2 correct pairs but only 1 gold pairs"),
    ],
)
def test_refuses_what_makes_no_sense(scores: list[float], correct: list[bool], n_gold: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        best_threshold(scores, correct, n_gold)
