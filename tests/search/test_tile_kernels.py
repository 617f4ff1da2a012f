"""Lists of the rows and of the columns of tiles, against sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search.tile_kernels import Lists, empty_lists, merge_lists, update


def check(lists: Lists, similarities: np.ndarray, count: int) -> None:
    """Best values as by sorting, each place once and with its own value."""
    rows, columns = similarities.shape
    expected = np.full((rows, count), -np.inf, np.float32)
    best = -np.sort(-similarities, axis=1)[:, :count]
    expected[:, : best.shape[1]] = best
    np.testing.assert_array_equal(lists.values, expected)
    for row, (values, places) in enumerate(zip(*lists, strict=True)):
        seen = places[places >= 0]
        assert len(seen) == len(set(seen.tolist())) == min(count, columns)
        np.testing.assert_array_equal(similarities[row, seen], values[: len(seen)])


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 90),
    st.integers(1, 9),
    st.sampled_from([1, 5, 16, 40, 100]),
    st.sampled_from([1, 8, 33, 100]),
    st.sampled_from([4, 10_000]),
    st.integers(0, 999),
)
def test_lists_hold_the_best_whatever_the_tiles_and_threads(n, m, count, rows, columns, values, seed):
    """With few distinct values, ties are everywhere."""
    chance = np.random.default_rng(seed)
    whole = (chance.integers(-values, values + 1, (n, m)) / values).astype(np.float32)
    # Two threads: one list of rows each, columns dealt to them.
    forward, backward = (empty_lists(n, count), empty_lists(n, count)), empty_lists(m, count)
    for part, t in enumerate(range(0, m, columns)):
        for s in range(0, n, rows):
            tile = np.ascontiguousarray(whole[s : s + rows, t : t + columns])
            update(tile, s, t, *forward[part % 2], *backward)
    merge_lists(*forward[0], *forward[1], 0, n // 2)
    merge_lists(*forward[0], *forward[1], n // 2, n)
    check(forward[0], whole, count)
    check(backward, np.ascontiguousarray(whole.T), count)
