"""Against LASER's BUCC protocol: equal on candidates without ties and duplicates, better in the
documented cases."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mining.evaluation import best_threshold


def laser_optimise(scores: dict[tuple[str, str], float], gold: set[tuple[str, str]]) -> tuple[float, float]:
    """The protocol's search: threshold and F1 by walking down the ranked pairs; raises IndexError
    as it does."""
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    threshold = best_f1 = 0.0
    correct = 0
    for i, (pair, score) in enumerate(ranked):
        correct += pair in gold
        if correct == 0:
            continue
        precision, recall = correct / (i + 1), correct / len(gold)
        f1 = 2 * precision * recall / (precision + recall)
        if f1 > best_f1:
            best_f1, threshold = f1, (score + ranked[i + 1][1]) / 2
    return threshold, best_f1


def laser_extract(scores: dict[tuple[str, str], float], gold: set[tuple[str, str]], threshold: float) -> float:
    """F1 of the pairs with ``score >= threshold``."""
    extracted = {pair for pair, score in scores.items() if score >= threshold}
    return 2 * len(extracted & gold) / (len(extracted) + len(gold))


def ours(scores: dict[tuple[str, str], float], gold: set[tuple[str, str]]) -> tuple[float | None, float]:
    best = best_threshold(list(scores.values()), [pair in gold for pair in scores], len(gold))
    return best.threshold, best.f1


@st.composite
def candidates_without_ties(draw: st.DrawFn) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    values = draw(st.lists(st.integers(1, 3_000_000), unique=True, min_size=2, max_size=40))
    correct = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    pairs = [(f"s{i}", f"t{i}") for i in range(len(values))]
    gold = {pair for pair, is_correct in zip(pairs, correct, strict=True) if is_correct}
    gold |= {(f"s{i}", "unreachable") for i in range(draw(st.integers(0, 4)))}
    return dict(zip(pairs, (value / 1e6 for value in values), strict=True)), gold


@given(candidates_without_ties())
def test_equal_without_ties_and_duplicates(case: tuple[dict[tuple[str, str], float], set[tuple[str, str]]]) -> None:
    scores, gold = case
    assume(any(pair in gold for pair in scores))
    lowest = min(scores, key=lambda pair: scores[pair])
    assume(lowest not in gold)  # else the walk may end in an index error
    threshold, f1 = laser_optimise(scores, gold)
    our_threshold, our_f1 = ours(scores, gold)
    assert our_f1 == pytest.approx(f1)
    assert our_threshold is not None
    assert laser_extract(scores, gold, our_threshold) == pytest.approx(laser_extract(scores, gold, threshold))
    # Ranks of equal F1 differ in the last bit of the protocol's formula; where one rank is best, it
    # is the same.
    if best_is_unique(scores, gold):
        assert our_threshold == pytest.approx(threshold, abs=1e-7)


def best_is_unique(scores: dict[tuple[str, str], float], gold: set[tuple[str, str]]) -> bool:
    values = [laser_extract(scores, gold, score) for score in scores.values()]
    return sum(abs(value - max(values)) < 1e-9 for value in values) == 1


def test_difference_ties_are_not_cut() -> None:
    scores = {("s1", "t1"): 1.0, ("s2", "t2"): 1.0, ("s3", "t3"): 0.5}
    gold = {("s1", "t1")}
    threshold, reported = laser_optimise(scores, gold)
    assert reported == 1.0
    assert laser_extract(scores, gold, threshold) == pytest.approx(2 / 3)  # what its own threshold really extracts
    our_threshold, our_f1 = ours(scores, gold)
    assert our_f1 == pytest.approx(2 / 3)
    assert our_threshold == 0.75
    assert laser_extract(scores, gold, our_threshold) == our_f1


def test_difference_the_last_rank_may_be_best() -> None:
    scores = {("s1", "t1"): 1.0, ("s2", "t2"): 0.5}
    with pytest.raises(IndexError):
        laser_optimise(scores, set(scores))
    assert ours(scores, set(scores)) == (0.5, 1.0)


def test_difference_nothing_correct() -> None:
    scores = {("s1", "t1"): -1.0, ("s2", "t2"): -2.0}
    assert laser_optimise(scores, {("s1", "t2")}) == (0.0, 0.0)
    assert ours(scores, {("s1", "t2")}) == (-1.5, 0.0)
