import numpy as np
import pyarrow as pa
import pytest
import torch

from mining import load_encoder, mine
from mining.api import Sentences, match_texts, search_texts
from mining.config.search import SearchSettings
from mining.devices import resolve_threads
from mining.errors import UsageError
from mining.schemas import PAIRS_SCHEMA


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
    "counts", [{"k": 0}, {"k": -1}, {"k": 2.5}, {"k": "2"}, {"k": True}, {"nprobe": 0}, {"nlist": -5}]
)
def test_counts_below_one_are_refused_by_name(task, encoder, counts):
    (name,) = counts
    message = "k = .*: give a whole number, 1 or more" if name == "k" else f"{name}: Input should be greater than 0"
    with pytest.raises(ValueError, match=message):
        mine(*sides(task), encoder, **counts)


def test_a_lone_surrogate_is_encoded_as_the_encoder_reads_it_and_written_as_a_replacement(encoder):
    source = ["ab\udce9c house", "red house", "ab\udce8c house"]
    target = ["rot haus", "ab haus"]
    names = {"source_ids": ["x\udce9", "y", "z"], "target_ids": ["a", "b\ud800"]}
    pairs = mine(source, target, encoder, k=1, strategy="forward", **names).to_pylist()
    found = {row["source_id"]: row for row in pairs}
    assert found.keys() == {"x\ufffd", "y"}
    assert found["x\ufffd"]["source_text"] == "ab\ufffdc house"
    assert found["x\ufffd"]["source_occurrences"] == 2
    assert {row["target_id"] for row in pairs} <= {"a", "b\ufffd"}
    read = mine(["ab?c house", "red house"], target, encoder, k=1, strategy="forward").to_pylist()
    assert sorted(row["score"] for row in pairs) == sorted(row["score"] for row in read)
    assert sorted(row["cosine"] for row in pairs) == sorted(row["cosine"] for row in read)
    with pytest.raises(ValueError, match="source_ids: an id stands twice: 'x\ufffd'"):
        mine(source, target, encoder, k=1, source_ids=["x\udce9", "x\udce8", "z"])


def test_an_array_of_strings_that_is_full_gives_a_table_in_chunks(task, encoder, monkeypatch):
    whole = mine(*sides(task), encoder)
    assert whole.column("source_text").num_chunks == 1
    monkeypatch.setattr("mining.text_arrays.LARGEST", 1000)
    parts = mine(*sides(task), encoder)
    assert parts.schema == PAIRS_SCHEMA
    assert parts.equals(whole)


def test_a_text_too_long_for_an_array_of_strings_is_named(encoder, monkeypatch):
    monkeypatch.setattr("mining.api.LARGEST", 10)
    assert len(mine(["a house", "0123456789"], ["ä" * 5], encoder, k=1)) == 1
    with pytest.raises(ValueError, match=r"source\[1\] has more than 10 bytes of UTF-8: cut it"):
        mine(["a house", "0123456789a"], ["haus"], encoder, k=1)
    with pytest.raises(ValueError, match=r"target\[0\] has more than 10 bytes"):
        mine(["a house"], ["ä" * 6], encoder, k=1)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), -float("inf"), np.float32("nan"), "1", True])
def test_a_threshold_that_is_no_number_is_refused(task, encoder, threshold):
    searched = search_texts(Sentences(["a house"], encoder), Sentences(["haus"], encoder), SearchSettings(k=1))
    for work in (
        lambda: mine(["a house"], ["haus"], encoder, k=1, threshold=threshold),
        lambda: match_texts(searched, "ratio", "max", threshold),
    ):
        with pytest.raises(ValueError, match=r"threshold = .*: give a finite number, or None"):
            work()
    assert len(match_texts(searched, "ratio", "max", np.float64(-5))) == 1
    assert len(match_texts(searched, "ratio", "max", 5)) == 0


class Spoilt:
    """An encoder whose vector of the third text is something else."""

    dim, hash = 3, "spoilt"

    def __init__(self, vector=(0.0, 0.0, 1.0), valid=True, shape=3):
        self.vector, self.valid, self.shape = vector, valid, shape

    def encode(self, texts, threads=0):
        vectors = np.tile(np.eye(3, dtype=np.float32), (len(texts), 1))[: len(texts)]
        valid = np.ones(len(texts), dtype=bool)
        if len(texts) > 2:
            vectors[2], valid[2] = self.vector, self.valid
        return vectors[:, : self.shape], valid


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ((np.nan, 0, 1), "is not finite"),
        ((np.inf, 0, 1), "is not finite"),
        ((0, 0, 0), "is all zeros but marked valid"),
        ((1e5, 0, 0), r"has length 1e\+05, not 1"),
        ((1e-5, 0, 0), "has length 1e-05, not 1"),
    ],
)
def test_vectors_that_are_none_are_refused(vector, message):
    source, target = ["", "a", "a", "b", "c"], ["x", "y", "z"]
    with pytest.raises(ValueError, match=rf"the vector of the encoder for source\[4\] {message}: give unit rows"):
        mine(source, target, Spoilt(vector), k=1, target_encoder=Spoilt())
    with pytest.raises(ValueError, match=rf"for target\[2\] {message}"):
        mine(source, target, Spoilt(), k=1, target_encoder=Spoilt(vector))
    assert len(mine(source, target, Spoilt(vector, valid=False), k=1, target_encoder=Spoilt())) == 2
    assert len(mine(source, target, Spoilt((0, 0, 5)), k=1, target_encoder=Spoilt())) == 3


def test_an_encoder_of_another_shape_is_refused():
    class Short(Spoilt):
        def encode(self, texts, threads=0):
            vectors, valid = super().encode(texts)
            return vectors[:-1], valid

    with pytest.raises(ValueError, match=r"vectors of shape \(1, 3\) and bool validity of shape \(2,\) for 2 texts"):
        mine(["a", "b"], ["c"], Short(), k=1)


@pytest.mark.parametrize("method", ["exact", "clusters"])
def test_one_thread_means_one_thread_everywhere(encoder, monkeypatch, method):
    asked = set()

    def resolve(threads):
        asked.add(threads)
        return resolve_threads(threads)

    # What shares work asks here how many threads that is.
    monkeypatch.setattr("mining.compiled.resolve_threads", resolve)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        texts = [f"house {number}" for number in range(40)]
        mine(texts, texts[::-1], encoder, threads=1, method=method, **({"nlist": 4} if method == "clusters" else {}))
    finally:
        torch.set_num_threads(before)
    assert asked == {1}
