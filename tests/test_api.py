import pyarrow as pa
import pytest

from mining import load_encoder, mine
from mining.errors import UsageError
from mining.pairs import PAIRS_SCHEMA


@pytest.fixture(scope="module")
def encoder(tiny_model):
    return load_encoder(tiny_model)


def sides(task):
    return [text for _, text in task.source_rows], [text for _, text in task.target_rows]


def ids(task):
    return {
        "source_ids": [row_id for row_id, _ in task.source_rows],
        "target_ids": [row_id for row_id, _ in task.target_rows],
    }


def test_finds_the_translations(task, encoder):
    pairs = mine(*sides(task), encoder, **ids(task))
    assert pairs.schema == PAIRS_SCHEMA
    best = pairs.slice(0, len(task.gold_pairs)).select(["source_id", "target_id"]).to_pylist()
    found = {(row["source_id"], row["target_id"]) for row in best} & set(task.gold_pairs)
    assert len(found) > 0.8 * len(task.gold_pairs)
    scores = pairs.column("score").to_pylist()
    assert scores == sorted(scores, reverse=True)


def test_arrow_arrays_and_lists_give_the_same(task, encoder):
    source, target = sides(task)
    assert mine(pa.array(source), pa.chunked_array([target[:50], target[50:]]), encoder).equals(
        mine(source, target, encoder)
    )


def test_duplicates_are_mined_once_and_counted(task, encoder):
    pairs = mine(*sides(task), encoder, strategy="backward", **ids(task)).to_pylist()
    copied = [row for row in pairs if row["target_occurrences"] == 3]
    assert len(copied) == 1
    assert all(row["source_text"].strip() for row in pairs)


def test_one_to_one_and_threshold(task, encoder):
    pairs = mine(*sides(task), encoder)
    for side in ("source_id", "target_id"):
        assert len(set(pairs.column(side).to_pylist())) == len(pairs)
    limit = pairs.column("score")[10].as_py()
    cut = mine(*sides(task), encoder, threshold=limit)
    assert cut.equals(pairs.slice(0, len(cut)))
    assert cut.column("score")[-1].as_py() >= limit


def test_none_is_a_blank_row(encoder, task):
    source, target = sides(task)
    assert mine([*source, None], target, encoder).equals(mine(source, target, encoder))


@pytest.mark.parametrize(("k", "named"), [(500, "source side has only")])
def test_k_beyond_a_side_names_the_mend(task, encoder, k, named):
    with pytest.raises(UsageError, match=f"k = {k} .*{named}.*set k .* to at most"):
        mine(*sides(task), encoder, k=k)


def test_wrong_types_are_refused(encoder):
    with pytest.raises(TypeError, match="source is one str"):
        mine("text", ["a"], encoder)
    with pytest.raises(TypeError, match=r"target\[1\] is int"):
        mine(["a"], ["b", 3], encoder)
    with pytest.raises(ValueError, match="an id stands twice"):
        mine(["a", "b"], ["c"], encoder, k=1, source_ids=["x", "x"])
    with pytest.raises(ValueError, match="2 texts and 1 ids"):
        mine(["a", "b"], ["c"], encoder, k=1, source_ids=["x"])
    with pytest.raises(ValueError, match="unknown strategy"):
        mine(["a"], ["b"], encoder, k=1, strategy="best")


@pytest.mark.parametrize(
    "counts", [{"k": 0}, {"k": -1}, {"k": 2.5}, {"k": "2"}, {"k": True}, {"nearest": 0}, {"clusters": -5}]
)
def test_counts_below_one_are_refused_by_name(task, encoder, counts):
    (name,) = counts
    with pytest.raises(ValueError, match=f"{name} = .*: give a whole number, 1 or more"):
        mine(*sides(task), encoder, **counts)
