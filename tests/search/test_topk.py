"""Lists of the k nearest, against sorting: of results, and of keys while tiles go by."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search.cluster_join import _update as update_some
from mining.search.topk import (
    EMPTY,
    FLOATS,
    NO_NEIGHBOUR,
    Neighbours,
    cut,
    empty_keys,
    float_similarities,
    keys_of,
    merge,
    merge_keys,
    no_neighbours,
    positions,
    similarities,
    update,
    update_rows,
)


def plain(entries: list[dict[int, float]], k: int) -> Neighbours:
    """Lists from one mapping of id to cosine a row, by sorting in Python."""
    found = no_neighbours(len(entries), k)
    for row, by_id in enumerate(entries):
        ranked = sorted(by_id.items(), key=lambda entry: (-entry[1], entry[0]))[:k]
        for column, (place, cosine) in enumerate(ranked):
            found.ids[row, column], found.cosines[row, column] = place, cosine
    return found


def same(left: Neighbours, right: Neighbours) -> bool:
    return left.ids.tobytes() == right.ids.tobytes() and left.cosines.tobytes() == right.cosines.tobytes()


#: Few ids and few cosines, so that ties and overlaps are common; one cosine for each id.
rows = st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=6)


def scored(places: set[int]) -> dict[int, float]:
    return {place: np.float32((place * 7 % 5) / 4 - 0.5) for place in places}


@settings(max_examples=200, deadline=None)
@given(st.data(), rows, st.integers(1, 5), st.integers(1, 5), st.integers(1, 7))
def test_merge_keeps_the_best_and_an_id_of_both_lists_once(chance, left, left_k, right_k, k):
    right = chance.draw(st.lists(st.sets(st.integers(0, 12)), min_size=len(left), max_size=len(left)))
    a = plain([scored(places) for places in left], left_k)
    b = plain([scored(places) for places in right], right_k)
    kept = [scored({int(p) for p in (*x, *y) if p != NO_NEIGHBOUR}) for x, y in zip(a.ids, b.ids, strict=True)]
    assert same(merge(a, b, k), plain(kept, k))
    assert same(merge(b, a, k), plain(kept, k))


@settings(max_examples=100, deadline=None)
@given(st.data(), rows, st.integers(1, 5))
def test_merge_is_associative(chance, first, k):
    lists = [plain([scored(places) for places in first], k)]
    for _ in range(2):
        more = chance.draw(st.lists(st.sets(st.integers(0, 12)), min_size=len(first), max_size=len(first)))
        lists.append(plain([scored(places) for places in more], k))
    a, b, c = lists
    assert same(merge(merge(a, b, k), c, k), merge(a, merge(b, c, k), k))


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(0, 5), st.integers(0, 9), st.integers(1, 6))
def test_cut_is_a_sort_by_cosine_and_id(chance, n, columns, k):
    seed = chance.draw(st.integers(0, 999))
    random = np.random.default_rng(seed)
    ids = np.array([random.permutation(columns + 3)[:columns] for _ in range(n)], np.int64).reshape(n, columns)
    cosines = (random.integers(0, 4, (n, columns)) / 4).astype(np.float32)
    missing = random.random((n, columns)) < 0.2
    ids[missing], cosines[missing] = NO_NEIGHBOUR, -np.inf
    entries = [
        {int(place): cosine for place, cosine in zip(places, row, strict=True) if place >= 0}
        for places, row in zip(ids, cosines, strict=True)
    ]
    assert same(cut(ids, cosines, k), plain(entries, k))


def test_lists_that_are_read_only_or_parts_of_tables_are_taken():
    table = np.zeros((2, 3), dtype=[("id", "<i8"), ("cosine", "<f4")])
    table["id"], table["cosine"] = [0, 1, 2], [0.9, 0.8, 0.7]
    table.setflags(write=False)
    lists = Neighbours(table["id"], table["cosine"])
    assert merge(lists, no_neighbours(2, 3), 2).ids.tolist() == [[0, 1]] * 2


def sorted_keys(tile: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The lists of the rows by plain sorting: (similarity descending, position)."""
    keys = empty_keys(*shape)
    for i, row in enumerate(rows):
        order = sorted(range(len(columns)), key=lambda j: (-tile[i, j], columns[j]))[: shape[1]]
        keys[row, : len(order)] = [int(tile[i, j]) * 2**32 + 2**32 - 1 - int(columns[j]) for j in order]
    return keys


tiles = st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))


@settings(max_examples=50)
@given(tiles, st.integers(1, 3), st.randoms(use_true_random=False))
def test_lists_are_the_best_of_all_that_was_shown_in_any_order_and_again(shape, repeats, shuffle):
    n, m, count, seed = shape
    chance = np.random.default_rng(seed)
    # Few distinct values, so that ties are common; negative ones as well.
    tile = chance.integers(-3, 4, (n, m)).astype(np.int32)
    rows, columns = chance.permutation(n + 3)[:n].astype(np.int64), chance.permutation(m + 5)[:m].astype(np.int64)
    row_keys, column_keys = empty_keys(n + 3, count), empty_keys(m + 5, count)
    parts = [(i, j) for i in range(0, n, 7) for j in range(0, m, 9)] * repeats
    shuffle.shuffle(parts)
    for i, j in parts:
        part = np.ascontiguousarray(tile[i : i + 7, j : j + 9])
        update_some(part, rows[i : i + 7], columns[j : j + 9], row_keys, column_keys)
    assert np.array_equal(row_keys, sorted_keys(tile, rows, columns, (n + 3, count)))
    assert np.array_equal(column_keys, sorted_keys(tile.T, columns, rows, (m + 5, count)))


@settings(max_examples=30)
@given(tiles)
def test_rows_alone_and_merged_lists(shape):
    n, m, count, seed = shape
    tile = np.random.default_rng(seed).integers(-50, 50, (n, m)).astype(np.int32)
    whole = sorted_keys(tile, np.arange(n), np.arange(m), (n, count))
    one, other = empty_keys(n, count), empty_keys(n, count)
    update_rows(np.ascontiguousarray(tile[:, : m // 2]), 0, one)
    update_rows(np.ascontiguousarray(tile[:, m // 3 :]), m // 3, other)
    merge_keys(one, other, 0, n)
    assert np.array_equal(one, whole)
    found = positions(one)
    assert (found[one == EMPTY] == -1).all()
    rows, places = np.nonzero(one != EMPTY)
    assert np.array_equal(similarities(one)[rows, places], tile[rows, found[rows, places]])


def check(keys: np.ndarray, similarities: np.ndarray, count: int) -> None:
    """Best values as by sorting, each position once and with its own value."""
    rows, columns = similarities.shape
    expected = np.full((rows, count), -np.inf, np.float32)
    best = -np.sort(-similarities, axis=1)[:, :count]
    expected[:, : best.shape[1]] = best
    found = float_similarities(keys)
    np.testing.assert_array_equal(found, expected)
    for row, (values, places) in enumerate(zip(found, positions(keys), strict=True)):
        seen = places[places >= 0]
        assert len(seen) == len(set(seen.tolist())) == min(count, columns)
        np.testing.assert_array_equal(similarities[row, seen], values[: len(seen)])


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 90),
    st.sampled_from([*range(1, 10), 40]),
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
    forward, backward = (empty_keys(n, count), empty_keys(n, count)), empty_keys(m, count)
    numbers = np.arange(max(n, m))
    for part, t in enumerate(range(0, m, columns)):
        for s in range(0, n, rows):
            tile = np.ascontiguousarray(whole[s : s + rows, t : t + columns])
            here, there = slice(s, s + len(tile)), slice(t, t + tile.shape[1])
            lists = forward[part % 2][here], backward[there]
            update(tile.view(np.int32), FLOATS, 1, numbers[here], numbers[there], *lists)
    merge_keys(forward[0], forward[1], 0, n // 2)
    merge_keys(forward[0], forward[1], n // 2, n)
    check(forward[0], whole, count)
    check(backward, np.ascontiguousarray(whole.T), count)


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=20), st.integers(1, 5))
def test_keys_hold_floats_in_their_order(values, columns):
    values = np.array([values] * columns, np.float32)
    places = np.arange(values.size).reshape(values.shape) - 1
    keys = keys_of(values, places)
    assert np.array_equal(positions(keys), places)
    assert np.array_equal(float_similarities(keys)[places >= 0], values[places >= 0])
    flat = values[places >= 0]
    order = np.argsort(keys[places >= 0], kind="stable")
    assert (flat[order][1:] >= flat[order][:-1]).all()
