import lzma
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from mining.errors import InputError, UsageError
from mining.evaluation import StsSet, sts_correlations
from mining.evaluation.sts import average_ranks, find_sts, pearson, read_sts, spearman

NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40)
FEW_VALUES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40)


def pearson_reference(left, right):
    """The textbook's formula with exact sums; None for a constant side."""
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    mean = math.fsum(left) / len(left), math.fsum(right) / len(right)
    a, b = [x - mean[0] for x in left], [y - mean[1] for y in right]
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(math.fsum(x * x for x in a)) / math.sqrt(math.fsum(y * y for y in b))


def ranks_reference(values):
    """1 + how many are smaller + half of how many others are equal."""
    return [1 + sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def same(found, expected):
    return found is None if expected is None else found is not None and math.isclose(found, expected, abs_tol=1e-7)


@given(PAIRS)
def test_pearson_equals_the_reference(pairs):
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    assert same(pearson(left, right), pearson_reference(left, right))


@given(FEW_VALUES)
def test_spearman_with_ties_equals_the_reference(pairs):
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    assert average_ranks(left).tolist() == ranks_reference(left)
    assert same(spearman(left, right), pearson_reference(ranks_reference(left), ranks_reference(right)))


@given(FEW_VALUES)
def test_equals_scipy(pairs):
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    assume(len(set(left)) > 1 and len(set(right)) > 1)
    assert same(pearson(left, right), float(stats.pearsonr(left, right)[0]))
    assert same(spearman(left, right), float(stats.spearmanr(left, right)[0]))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20), st.data())
def test_never_nan(values, data):
    others = data.draw(
        st.lists(
            st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True),
            min_size=len(values),
            max_size=len(values),
        )
    )
    for found in (pearson(values, others), spearman(values, others)):
        assert (found is None) == (len(set(values)) < 2 or len(set(others)) < 2)
        assert found is None or -1 <= found <= 1


def test_undefined():
    assert pearson([], []) is None
    assert pearson([1], [2]) is None
    # 0.1 has no exact mean: its deviations are not all zero.
    assert pearson([0.1] * 10, list(range(10))) is None
    assert spearman(list(range(10)), [0.1] * 10) is None


@pytest.fixture
def encoder(table_encoder):
    """Sentences a to f on a circle: the cosine of a and x falls from a to f."""
    return table_encoder({name: [math.cos(i / 4), math.sin(i / 4)] for i, name in enumerate("abcdef")})


def dataset(name, *rows):
    return StsSet(name, np.array([row[0] for row in rows], float), [row[1] for row in rows], [row[2] for row in rows])


SETS = [
    dataset("STS12.one", (5, "a", "a"), (3, "a", "b"), (4, "a", "c"), (0, "a", "f")),
    dataset("STS12.two", (0, "a", "a"), (5, "a", "f")),
    dataset("STS12.flat", (1, "a", "b"), (2, "b", "a")),
    dataset("STS13.one", (2, "a", "b"), (1, "a", "e"), (0, "a", "nothing")),
    dataset("alone", (2, "a", "b"), (2, "a", "e")),
]


def test_each_set(encoder):
    result = sts_correlations(encoder, SETS)
    one, two, flat, third, alone = result.sets
    cosines = [1, math.cos(0.25), math.cos(0.5), math.cos(1.25)]
    assert one.pearson == pytest.approx(100 * pearson_reference(cosines, [5, 3, 4, 0]), abs=1e-3)
    assert one.spearman == pytest.approx(80)
    assert (two.pearson, two.spearman) == (pytest.approx(-100), pytest.approx(-100))
    assert (flat.pearson, flat.spearman, alone.pearson, alone.spearman) == (None, None, None, None)
    # The pair that cannot be encoded counts as similarity 0, below the others.
    assert (third.unencoded, third.spearman) == (1, pytest.approx(100))
    assert [score.unencoded for score in (one, two, flat, alone)] == [0, 0, 0, 0]


def test_groups(encoder):
    result = sts_correlations(encoder, SETS)
    first, second, third = result.groups
    one = result.sets[0]
    assert (first.name, first.sets, first.defined, first.pairs) == ("STS12", 3, 2, 8)
    assert first.pearson == pytest.approx((one.pearson - 100) / 2)
    assert first.weighted_pearson == pytest.approx((4 * one.pearson - 2 * 100) / 6)
    assert first.spearman == pytest.approx((80 - 100) / 2)
    assert first.weighted_spearman == pytest.approx((4 * 80 - 2 * 100) / 6)
    cosines = [1, math.cos(0.25), math.cos(0.5), math.cos(1.25), 1, math.cos(1.25), math.cos(0.25), math.cos(0.25)]
    gold = [5, 3, 4, 0, 0, 5, 1, 2]
    ranks = [ranks_reference([round(value, 6) for value in cosines]), ranks_reference(gold)]
    assert first.concatenated == pytest.approx(100 * pearson_reference(*ranks))
    assert (second.name, second.defined) == ("STS13", 1)
    assert (third.name, third.sets, third.defined, third.pearson, third.concatenated) == ("alone", 1, 0, None, None)
    assert (result.all.sets, result.all.defined, result.all.pairs) == (5, 3, 13)


def test_plain_data_has_no_nan(encoder):
    data = sts_correlations(encoder, SETS).to_dict()
    assert data["sets"]["STS12.flat"] == {"pairs": 2, "pearson": None, "spearman": None, "unencoded": 0}
    assert set(data["groups"]) == {"STS12", "STS13", "alone"}
    empty = sts_correlations(encoder, []).to_dict()
    assert empty["all"]["pearson"] is None
    assert empty["all"]["sets"] == 0


def test_sets_that_cannot_be_told_apart(encoder):
    with pytest.raises(ValueError, match="two data sets have one name"):
        sts_correlations(encoder, [SETS[0], SETS[0]])
    with pytest.raises(ValueError, match="2 judgements for 1 pairs"):
        sts_correlations(encoder, [StsSet("x", np.array([1.0, 2.0]), ["a"], ["b"])])


def test_reading(tmp_path):
    (tmp_path / "STS12.x.tsv").write_bytes("\ufeff4.5\ta\u2028b\tc\r\n\n-1\t\td\n".encode())
    (tmp_path / "STS13.y.tsv.xz").write_bytes(lzma.compress(b"1\ta\tb\n"))
    (tmp_path / "LICENSE").write_text("no data set")
    first, second = (read_sts(path) for path in find_sts([tmp_path]))
    assert (first.name, first.gold.tolist(), first.left, first.right) == (
        "STS12.x",
        [4.5, -1.0],
        ["a\u2028b", ""],
        ["c", "d"],
    )
    assert (second.name, second.group) == ("STS13.y", "STS13")
    assert len(find_sts([tmp_path, tmp_path / "STS12.x.tsv"])) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\ta\tb\n2\ta\n", r"x\.tsv, line 2: 2 columns: each line holds gold, tab, sentence"),
        (b"1\ta\tb\tc\n", r"x\.tsv, line 1: 4 columns"),
        (b"\n\nhello\n", r"x\.tsv, line 3: 1 column:"),
        (b"\ta\tb\n", r"x\.tsv, line 1: '' is no judgement"),
        (b"nan\ta\tb\n", r"x\.tsv, line 1: 'nan' is no judgement"),
        (b"1\ta\tb\ninf\ta\tb\n", r"x\.tsv, line 2: 'inf' is no judgement"),
        (b"1\ta\t\xe4\n", r"x\.tsv, line 1: invalid UTF-8: correct or remove the line"),
        (b"\n", r"x\.tsv: holds no pairs"),
        (b"", r"x\.tsv: holds no pairs"),
    ],
)
def test_faulty_files_are_named(tmp_path, content, message):
    (tmp_path / "x.tsv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_sts(tmp_path / "x.tsv")


def test_paths_that_name_no_data_set(tmp_path):
    with pytest.raises(UsageError, match="nowhere: no such file"):
        find_sts([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match=r"holds no \.tsv files"):
        find_sts([tmp_path])
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.tsv").write_text("1\ta\tb\n")
    with pytest.raises(UsageError, match="x: two of the data sets have this name"):
        find_sts([tmp_path / "one", tmp_path / "two"])


def test_byte_order_marks_at_the_start_of_lines_and_cells(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("\ufeff1\t\ufeffone\teins\n\ufeff2\ttwo\t\ufeffzwei\n", encoding="utf-8")
    found = read_sts(path)
    assert (found.gold.tolist(), found.left, found.right) == ([1, 2], ["one", "two"], ["eins", "zwei"])
