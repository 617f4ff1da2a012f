from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.api import mine
from mining.corpus import BitextSpec, CorpusSpec, Row
from mining.encoder import Encoder, load_encoder, write_vectors
from mining.errors import UsageError
from mining.neighbour_scores import pair_scores
from mining.scoring import SCORED, PairScorer, ScoreConfig, pool_from_rows, read_pool
from mining.search.vectors import from_stored, to_stored
from tests.scoring.conftest import SENTENCES, make_model, one, row, vector_file


def scores(scorer: PairScorer, rows: list[Row]) -> list[dict]:
    tables = list(scorer.score(rows))
    return pa.concat_tables(tables).to_pylist() if tables else []


def vectors_of(encoder: Encoder, texts: list[str]) -> np.ndarray:
    return from_stored(to_stored(encoder.encode(texts)[0])).astype(np.float64)


def expected_means(encoder: Encoder, texts: list[str], pool: list[str], k: int) -> np.ndarray:
    similar = vectors_of(encoder, texts) @ vectors_of(encoder, pool).T
    return np.sort(similar, axis=1)[:, ::-1][:, :k].mean(axis=1)


def test_cosine_of_each_pair(encoder: Encoder) -> None:
    pairs = [("red house", "rot haus"), ("blue bird", "blue bird"), ("river", "stein vogel")]
    got = scores(PairScorer(encoder), [row(*pair, number=i) for i, pair in enumerate(pairs)])
    left, right = (vectors_of(encoder, [pair[side] for pair in pairs]) for side in (0, 1))
    np.testing.assert_allclose([r["cosine"] for r in got], (left * right).sum(axis=1), atol=1e-6)
    assert got[1]["cosine"] == 1.0
    assert [(r["id"], r["source"], r["target"]) for r in got] == [(f"p{i}", *pair) for i, pair in enumerate(pairs)]
    assert all(r["margin"] is None and r["source_mean"] is None and r["reason"] is None for r in got)


@pytest.mark.parametrize("kind", ["ratio", "distance", "absolute"])
@pytest.mark.parametrize("k", [1, 4])
def test_margin_against_two_pools(encoder: Encoder, kind: str, k: int) -> None:
    source_pool, target_pool = SENTENCES[:40], SENTENCES[60:90]
    pools = (
        pool_from_rows([one(text) for text in source_pool], encoder, "s"),
        pool_from_rows([one(text) for text in target_pool], encoder, "t"),
    )
    pairs = [(SENTENCES[i], SENTENCES[i + 100]) for i in range(0, 30, 3)]
    got = scores(PairScorer(encoder, pools, k, kind), [row(*pair) for pair in pairs])
    source_mean = expected_means(encoder, [pair[0] for pair in pairs], target_pool, k)
    target_mean = expected_means(encoder, [pair[1] for pair in pairs], source_pool, k)
    np.testing.assert_allclose([r["source_mean"] for r in got], source_mean, atol=2e-6)
    np.testing.assert_allclose([r["target_mean"] for r in got], target_mean, atol=2e-6)
    margin, _ = pair_scores([r["cosine"] for r in got], source_mean, target_mean, kind)
    np.testing.assert_allclose([r["margin"] for r in got], margin, atol=5e-6)
    for r in got:
        assert all(r[name] == round(r[name], 6) for name in ("cosine", "source_mean", "target_mean", "margin"))


def test_rows_that_cannot_be_scored_keep_their_texts(encoder: Encoder) -> None:
    pools = tuple(pool_from_rows([one(text) for text in SENTENCES[:9]], encoder, side) for side in "st")
    rows = [
        row("", "tree " * 50),
        row("red", " \u3000"),
        row("red", "tree " * 50),
        row("red house", "rot haus"),
        row("\u200b", "baum"),
        row("??", "half a ro", reason="bad_row"),
        Row("p7", ("broken",), "f", 7, "invalid_utf8"),
    ]
    scorer = PairScorer(encoder, pools, max_chars=100)
    got = scores(scorer, rows)
    reasons = ["blank", "blank", "too_long", None, "no_pieces", "bad_row", "invalid_utf8"]
    assert [r["reason"] for r in got] == reasons
    assert [(r["source"], r["target"]) for r in got] == [*(r.texts for r in rows[:6]), ("broken", "")]
    for r in got:
        numbers = [r[name] for name in ("cosine", "source_mean", "target_mean", "margin")]
        assert all(n is None for n in numbers) if r["reason"] else all(np.isfinite(numbers))
    assert scorer.tally == {"blank": 2, "too_long": 1, SCORED: 1, "no_pieces": 1, "bad_row": 1, "invalid_utf8": 1}


texts = st.sampled_from([*SENTENCES[:20], "", " ", "\u200b", "x" * 60, "RED  House"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(texts, texts), max_size=12), st.integers(1, 5))
def test_blocks_and_neighbours_do_not_matter(encoder: Encoder, pairs: list[tuple[str, str]], size: int) -> None:
    pools = tuple(pool_from_rows([one(text) for text in SENTENCES[:30]], encoder, side) for side in "st")
    rows = [row(*pair, number=i) for i, pair in enumerate(pairs)]
    together = scores(PairScorer(encoder, pools, 3, max_chars=50), rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mining.scoring.BLOCK_ROWS", size)
        in_blocks = scores(PairScorer(encoder, pools, 3, max_chars=50), rows)
    assert in_blocks == together
    assert len(together) == len(pairs)
    for r in together:
        assert (r["cosine"] is None) == (r["reason"] is not None)


def test_long_texts_end_a_block(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mining.scoring.BLOCK_CHARS", 60)
    rows = [row("red house tree", "rot haus baum fluss", i) for i in range(5)]
    assert [len(table) for table in PairScorer(encoder).score(rows)] == [2, 2, 1]


def test_pool_of_texts_counts_each_once(encoder: Encoder) -> None:
    rows = [one("red house"), one("red  house "), one("", reason="blank"), one("blue"), one("\u200b"), one("red house")]
    pool = pool_from_rows(rows, encoder, "pool")
    assert (len(pool.vectors), pool.rows, pool.unusable, pool.repeated) == (2, 6, 2, 2)


@pytest.mark.parametrize(("name", "dtype"), [("p.npy", "float32"), ("p.npy", "float16"), ("p.parquet", "float32")])
def test_pool_of_vectors_equals_pool_of_texts(tmp_path: Path, encoder: Encoder, name: str, dtype: str) -> None:
    texts = [*SENTENCES[:10], SENTENCES[3], "\u200b", *SENTENCES[10:20]]
    path = vector_file(tmp_path / name, encoder, texts, dtype=dtype)
    pool = read_pool(CorpusSpec(path=str(path)), encoder, 4, "source")
    from_text = pool_from_rows([one(text) for text in texts], encoder, "texts")
    np.testing.assert_array_equal(pool.vectors, from_text.vectors)
    assert (pool.rows, pool.unusable, pool.repeated) == (22, 1, 1)


def test_pool_of_a_parquet_corpus(tmp_path: Path, encoder: Encoder) -> None:
    pq.write_table(pa.table({"text": SENTENCES[:7]}), tmp_path / "pool.parquet")
    assert len(read_pool(CorpusSpec(path=str(tmp_path / "pool.parquet")), encoder, 4, "source").vectors) == 7


def test_pool_of_another_dimension_or_model(tmp_path: Path, encoder: Encoder) -> None:
    other = load_encoder(make_model(tmp_path / "other", dim=8))
    path = vector_file(tmp_path / "p.npy", other, SENTENCES[:9])
    with pytest.raises(UsageError, match=r"p\.npy: its vectors have dimension 8 but the model has 16: encode the pool"):
        read_pool(CorpusSpec(path=str(path)), encoder, 4, "source")
    path = vector_file(tmp_path / "q.parquet", encoder, SENTENCES[:9], model_hash="f" * 32)
    with pytest.raises(
        UsageError, match=rf"q\.parquet: its vectors are of model f+ but the model here is {encoder.hash}"
    ):
        read_pool(CorpusSpec(path=str(path)), encoder, 4, "source")


def test_k_larger_than_a_pool(tmp_path: Path, encoder: Encoder) -> None:
    (tmp_path / "pool.txt").write_text("red\nblue\nred\n\n")
    spec = CorpusSpec(path=str(tmp_path / "pool.txt"))
    message = (
        r"pool\.txt: k 4 is more than the 2 distinct usable sentences of the target pool: give k 2 or less, or a larger"
    )
    with pytest.raises(UsageError, match=message):
        read_pool(spec, encoder, 4, "target")
    (tmp_path / "pool.txt").write_text("\n\n")
    with pytest.raises(UsageError, match="give another pool"):
        read_pool(spec, encoder, 4, "target")


def test_one_pool_is_not_enough(model: Path) -> None:
    with pytest.raises(ValueError, match="the margin needs pools of both sides: give target_pool too"):
        ScoreConfig(pairs=BitextSpec(path="p"), model=str(model), output="o.tsv", source_pool=CorpusSpec(path="s.txt"))


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
def test_mined_pairs_score_as_they_were_mined(encoder: Encoder, margin: str) -> None:
    source, target = [*SENTENCES[:60], SENTENCES[7]], SENTENCES[40:110]
    mined = mine(source, target, encoder, k=3, margin=margin).to_pylist()
    pools = tuple(pool_from_rows([one(text) for text in side], encoder, "pool") for side in (source, target))
    rows = [row(pair["source_text"], pair["target_text"]) for pair in mined]
    again = scores(PairScorer(encoder, pools, 3, margin), rows)
    assert mined
    names = ("margin", "cosine", "source_mean", "target_mean")
    expected = [{name: {**pair, "margin": pair["score"]}[name] for name in names} for pair in mined]
    assert [{name: r[name] for name in names} for r in again] == expected


def test_lone_surrogates_are_kept_as_replacements(encoder: Encoder) -> None:
    pools = tuple(pool_from_rows([one("red\udce9 house"), one("red\udce8 house")], encoder, side) for side in "st")
    assert [(len(pool.vectors), pool.repeated) for pool in pools] == [(1, 1), (1, 1)]
    (got,) = scores(PairScorer(encoder, pools, k=1), [Row("i\ud800", ("red\udce9 house", "rot haus"), "f", 1, None)])
    assert (got["id"], got["source"], got["reason"]) == ("i\ufffd", "red\ufffd house", None)
    (read,) = scores(PairScorer(encoder, pools, k=1), [row("red? house", "rot haus")])
    assert (got["cosine"], got["margin"]) == (read["cosine"], read["margin"])


def test_a_block_that_fills_an_array_of_strings_comes_in_chunks(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(text, text, number) for number, text in enumerate(SENTENCES[:50])]
    (whole,) = PairScorer(encoder).score(rows)
    monkeypatch.setattr("mining.text_arrays.LARGEST", 100)
    (parts,) = PairScorer(encoder).score(rows)
    assert whole.column("source").num_chunks == 1 < parts.column("source").num_chunks
    assert parts.equals(whole)


@pytest.mark.parametrize("given", [{"k": 0}, {"k": 2.5}, {"max_chars": 0}, {"margin": "rato"}])
def test_faulty_arguments_of_the_scorer_are_refused(encoder: Encoder, given: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(given.values())) if "margin" in given else next(iter(given))):
        PairScorer(encoder, **given)


def test_a_scorer_with_pools_smaller_than_k_is_refused(encoder: Encoder) -> None:
    pools = pool_from_rows([one("red house"), one("tree")], encoder, "a"), pool_from_rows([one("rot")], encoder, "b")
    with pytest.raises(UsageError, match="b: k 2 is more than the 1 distinct usable sentences of the target pool"):
        PairScorer(encoder, pools, k=2)


def test_one_thread_means_one_thread(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()

    def resolve(threads: int) -> int:
        asked.add(threads)
        return 1

    # What shares work asks here how many threads that is.
    monkeypatch.setattr("mining.compiled.resolve_threads", resolve)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        pool = pool_from_rows([one(text) for text in SENTENCES[:9]], encoder, "pool", threads=1)
        scores(PairScorer(encoder, (pool, pool), threads=1), [row(text, text) for text in SENTENCES[:9]])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert asked == {1}


def test_a_pool_of_vectors_that_are_none_is_refused(tmp_path: Path, model: Path, encoder: Encoder) -> None:
    texts = SENTENCES[:9]
    vectors, valid = encoder.encode(texts)
    write_vectors(tmp_path / "p.npy", [(texts, vectors, valid)], dim=encoder.dim, model_hash=encoder.hash)
    spoilt = np.load(tmp_path / "p.npy")
    spoilt[3, 7] = np.nan
    np.save(tmp_path / "p.npy", spoilt)
    with pytest.raises(UsageError, match=rf"p\.npy: row 4 \(id '{texts[3]}'\) is not finite"):
        read_pool(CorpusSpec(path=str(tmp_path / "p.npy")), encoder, 2, "source")
