import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search.neighbours import NO_NEIGHBOUR, Neighbours, cut, merge, no_neighbours


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
