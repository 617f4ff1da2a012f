import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search import tile_kernels as kernels
from mining.search.tile_kernels import Lists, empty_lists


def reference(pairs: dict[tuple[int, int], float], rows: int, count: int) -> np.ndarray:
    """The `count` best values of each row, by sorting."""
    values = np.full((rows, count), -np.inf, np.float32)
    for row in range(rows):
        best = sorted((value for (left, _), value in pairs.items() if left == row), reverse=True)[:count]
        values[row, : len(best)] = best
    return values


def check(lists: Lists, pairs: dict[tuple[int, int], float], count: int) -> None:
    """Best values as sorted ones, each place once and with its own value."""
    np.testing.assert_array_equal(lists.values, reference(pairs, len(lists.values), count))
    for row, (values, places) in enumerate(zip(*lists, strict=True)):
        seen = places[places >= 0].tolist()
        assert len(seen) == len(set(seen)) == np.isfinite(values).sum()
        assert all(pairs[row, place] == value for place, value in zip(seen, values, strict=False))


def tiles(n: int, m: int, seed: int, parts: int):
    """Tiles over random subsets of both sides, which overlap, with few distinct values."""
    chance = np.random.default_rng(seed)
    whole = (chance.integers(-8, 9, (n, m)) / 8).astype(np.float32)
    for _ in range(parts):
        rows = chance.permutation(n)[: chance.integers(1, n + 1)].astype(np.int64)
        columns = chance.permutation(m)[: chance.integers(1, m + 1)].astype(np.int64)
        yield np.ascontiguousarray(whole[np.ix_(rows, columns)]), rows, columns


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 70), st.integers(1, 9), st.integers(1, 4), st.integers(0, 999))
def test_lists_of_rows_and_columns_hold_the_best_of_overlapping_tiles(n, m, count, parts, seed):
    both, apart = (empty_lists(n, count), empty_lists(m, count)), (empty_lists(n, count), empty_lists(m, count))
    mine, others = (empty_lists(n, count), empty_lists(m, count)), (empty_lists(n, count), empty_lists(m, count))
    pairs: dict[tuple[int, int], float] = {}
    for part, (tile, rows, columns) in enumerate(tiles(n, m, seed, parts)):
        pairs |= {(int(r), int(c)): tile[i, j] for i, r in enumerate(rows) for j, c in enumerate(columns)}
        kernels.update(tile, rows, columns, *both[0], *both[1])
        for start, stop in ((0, len(rows) // 2), (len(rows) // 2, len(rows))):
            kernels.update_rows(tile, rows, columns, *apart[0], start, stop)
        for start, stop in ((0, len(columns) // 3), (len(columns) // 3, len(columns))):
            kernels.update_columns(tile, rows, columns, *apart[1], start, stop)
        kernels.update(tile, rows, columns, *(mine, others)[part % 2][0], *(mine, others)[part % 2][1])
    for side, other in zip(mine, others, strict=True):
        kernels.merge_lists(*side, *other, 0, len(side.values))
    swapped = {(column, row): value for (row, column), value in pairs.items()}
    for forward, backward in (both, apart, mine):
        check(forward, pairs, count)
        check(backward, swapped, count)


def test_of_two_values_for_one_pair_the_larger_stays():
    forward, backward = empty_lists(1, 2), empty_lists(3, 2)
    for values in ([0.5, 0.2, 0.1], [0.4, 0.3, 0.6]):
        tile = np.array([values], np.float32)
        kernels.update(tile, np.zeros(1, np.int64), np.arange(3), *forward, *backward)
    assert forward.places.tolist() == [[2, 0]]
    assert forward.values.tolist() == [[np.float32(0.6), np.float32(0.5)]]
    assert backward.places.tolist() == [[0, -1]] * 3
