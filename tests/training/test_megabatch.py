from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mining.training import megabatch
from mining.training.megabatch import MegaBatchSchedule, false_negatives, hardest_negatives


def published_schedule(largest: int, anneal: int, minibatches: int, epochs: int) -> Iterator[list[int]]:
    """The code published with Wieting et al. 2019, one mini-batch at a time; an empty list ends an epoch."""
    current, grow = 1, False
    for _ in range(epochs):
        position = 0
        while True:
            taken: list[int] = []
            if anneal == 0:
                while len(taken) < largest and position < minibatches:
                    taken.append(position)
                    position += 1
            else:
                if grow and current < largest:
                    current += 1
                    grow = False
                for _ in range(current):
                    if position < minibatches:
                        taken.append(position)
                        position += 1
                        if position % anneal == 0:
                            grow = True
            yield taken
            if not taken:
                break


@given(st.integers(1, 6), st.integers(0, 7), st.integers(1, 40), st.integers(1, 4))
def test_schedule_equals_the_published_one(largest: int, anneal: int, minibatches: int, epochs: int) -> None:
    schedule = MegaBatchSchedule(largest, anneal)
    for expected in published_schedule(largest, anneal, minibatches, epochs):
        taken = schedule.refill(minibatches)
        assert list(taken) == expected
        if not taken:
            schedule.restart()


def test_mega_batch_grows_by_one_about_every_anneal_minibatches() -> None:
    schedule = MegaBatchSchedule(100, 150)
    sizes = []
    while taken := schedule.refill(1500):
        sizes.append((taken.stop, len(taken)))
    assert sizes[149] == (150, 1)
    assert sizes[150] == (152, 2)
    assert sizes[-2][1] == 10


def slow_hardest(
    source: np.ndarray, target: np.ndarray, source_groups: np.ndarray, target_groups: np.ndarray
) -> tuple[list[int], list[int]]:
    """One sentence at a time, as in the published code, with the duplicates of the translation left out as well."""

    def hardest(one: np.ndarray, other: np.ndarray) -> list[int]:
        chosen = []
        for i, vector in enumerate(one):
            best, best_cosine = -1, -np.inf
            for j, candidate in enumerate(other):
                same = source_groups[i] == source_groups[j] or target_groups[i] == target_groups[j]
                if not same and vector @ candidate > best_cosine:
                    best, best_cosine = j, vector @ candidate
            chosen.append(best)
        return chosen

    return hardest(source, target), hardest(target, source)


@given(
    n=st.integers(1, 12), kinds=st.integers(1, 12), cells=st.sampled_from([1, 20, 1 << 20]), seed=st.integers(0, 999)
)
def test_hardest_negatives_equal_the_slow_ones(n: int, kinds: int, cells: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    # Small whole numbers: products are exact, and ties are frequent.
    source, target = chance.integers(-2, 3, (2, n, 4)).astype(np.float32)
    groups = chance.integers(0, kinds, (2, n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(megabatch, "_BLOCK_CELLS", cells)
        found = hardest_negatives(torch.from_numpy(source), torch.from_numpy(target), false_negatives(*groups))
    expected = slow_hardest(source, target, *groups)
    assert found[0].tolist() == expected[0]
    assert found[1].tolist() == expected[1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=15))
def test_false_negatives_are_the_cells_of_equal_sentences(groups: list[tuple[int, int]]) -> None:
    source, target = np.array(groups).T
    rows, columns = false_negatives(source, target)
    n = len(groups)
    expected = {(i, j) for i in range(n) for j in range(n) if source[i] == source[j] or target[i] == target[j]}
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected


def test_single_pair_has_no_negative() -> None:
    one = torch.ones((1, 3))
    of_source, of_target = hardest_negatives(one, one, false_negatives(np.zeros(1, int), np.zeros(1, int)))
    assert (of_source.tolist(), of_target.tolist()) == ([-1], [-1])
