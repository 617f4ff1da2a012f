import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.matching import best_candidates, greedy, greedy_reference, iterate_bands, match, merge_runs, sort_candidates
from mining.schemas import BACKWARD, BOTH, CANDIDATE, FORWARD
from mining.search.topk import Neighbours, no_neighbours

SIDE = 6
edges = st.lists(
    st.tuples(st.integers(0, SIDE - 1), st.integers(0, SIDE - 1), st.sampled_from([0.5, 1.0, 1.5, 2.0])),
    unique_by=lambda edge: edge[:2],
)


def candidates(rows, direction=FORWARD):
    table = np.zeros(len(rows), dtype=CANDIDATE)
    for i, (source, target, score) in enumerate(rows):
        table[i] = (source, target, score, 0.5, 1, direction)
    return sort_candidates(table)


def pairs(blocks):
    return [(int(row["source"]), int(row["target"])) for block in blocks for row in block]


@given(edges)
def test_compiled_greedy_equals_one_by_one(rows):
    table = candidates(rows)
    flags = [np.zeros(SIDE, dtype=bool) for _ in range(4)]
    fast = greedy(table, *flags[:2])
    slow = greedy_reference(table["source"], table["target"], *flags[2:])
    assert fast.tolist() == slow.tolist()
    assert flags[0].tolist() == flags[2].tolist()
    assert flags[1].tolist() == flags[3].tolist()


@given(
    edges, edges, st.integers(1, 40), st.integers(1, 4), st.sampled_from(["forward", "backward", "intersection", "max"])
)
def test_bands_and_runs_never_change_the_pairs(forward, backward, band, parts, strategy):
    scores = {edge[:2]: edge[2] for edge in backward}
    forward = [(s, t, scores.get((s, t), score)) for s, t, score in forward]
    whole = [candidates(forward, FORWARD), candidates(backward, BACKWARD)]
    split = [candidates(forward[i::parts], FORWARD) for i in range(parts)] + [whole[1]]
    once = list(match(whole, strategy, SIDE, SIDE))
    banded = list(match(split, strategy, SIDE, SIDE, band=band))
    assert pairs(once) == pairs(banded)


def test_bands_have_about_the_size_that_is_asked_for():
    """It bounds the memory of the matching, whatever the number of runs."""
    for parts in (1, 3, 40):
        runs = [candidates([(i, i, 1 - i / 1000) for i in range(part, 1000, parts)]) for part in range(parts)]
        sizes = [len(block) for block in iterate_bands(runs, 100)]
        assert sum(sizes) == 1000
        assert 8 <= len(sizes) <= 12
        assert max(sizes) <= 150


@given(st.lists(edges, max_size=6))
def test_merged_runs_equal_all_candidates_sorted(lists):
    runs = [candidates(rows, FORWARD if i % 2 else BACKWARD) for i, rows in enumerate(lists)]
    expected = sort_candidates(np.concatenate([np.empty(0, CANDIDATE), *runs]))
    assert merge_runs(runs).tobytes() == expected.tobytes()


@given(st.integers(1, 12), st.integers(1, 3), st.sampled_from([FORWARD, BACKWARD]), st.randoms(use_true_random=False))
def test_best_candidates_are_a_sorted_run(rows, k, direction, chance):
    neighbours = np.array([[chance.randint(-1, 5) for _ in range(k)] for _ in range(rows)])
    cosines = np.array([[chance.choice([0.25, 0.5]) for _ in range(k)] for _ in range(rows)], dtype=np.float32)
    numbers = 3 + 2 * np.arange(rows)
    lists = Neighbours(neighbours, cosines)
    run, _ = best_candidates(numbers, lists, np.ones(rows), np.ones((rows, k)), "ratio", direction)
    assert run.tobytes() == sort_candidates(run).tobytes()
    ends = "source" if direction == FORWARD else "target"
    assert sorted(run[ends].tolist()) == numbers[(neighbours >= 0).any(axis=1)].tolist()


def test_strategies_on_a_case_by_hand():
    forward = candidates([(0, 0, 2.0), (1, 0, 1.5), (2, 2, 1.0)], FORWARD)
    backward = candidates([(0, 0, 2.0), (1, 1, 1.2), (2, 2, 1.0)], BACKWARD)
    runs = [forward, backward]
    assert pairs(match(runs, "forward", 3, 3)) == [(0, 0), (1, 0), (2, 2)]
    assert pairs(match(runs, "backward", 3, 3)) == [(0, 0), (1, 1), (2, 2)]
    assert pairs(match(runs, "intersection", 3, 3)) == [(0, 0), (2, 2)]
    assert pairs(match(runs, "max", 3, 3)) == [(0, 0), (1, 1), (2, 2)]
    first = next(iter(match(runs, "max", 3, 3)))
    assert first["direction"].tolist() == [BOTH, BACKWARD, BOTH]


def test_ties_go_to_the_lower_rows():
    runs = [candidates([(1, 0, 1.0), (0, 1, 1.0), (0, 0, 1.0), (1, 1, 1.0)])]
    assert pairs(match(runs, "max", 2, 2)) == [(0, 0), (1, 1)]


def test_best_candidate_is_the_best_by_margin_not_by_cosine():
    best, _ = best_candidates(
        rows=np.array([7]),
        lists=Neighbours(np.array([[3, 5]]), np.array([[0.9, 0.8]], dtype=np.float32)),
        own_means=np.array([0.85]),
        other_means=np.array([[0.95, 0.4]]),
        margin="ratio",
        direction=BACKWARD,
    )
    assert best[["source", "target", "rank", "direction"]].tolist() == [(5, 7, 2, BACKWARD)]


def test_rows_without_neighbours_give_no_candidate():
    lists = no_neighbours(2, 3)
    assert len(best_candidates(np.arange(2), lists, np.zeros(2), np.zeros((2, 3)), "ratio", FORWARD)[0]) == 0
    assert list(match([], "max", 0, 0)) == []


def test_unknown_strategy_is_named():
    with pytest.raises(ValueError, match="unknown strategy 'mutual'"):
        list(match([], "mutual", 1, 1))
