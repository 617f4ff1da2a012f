import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.errors import InputError, UsageError
from mining.evaluation import Gold, evaluate_pairs
from mining.evaluation.tables import IdIndex, PairIndex, gold_ranks, read_ledger
from mining.schemas import CANDIDATES_SCHEMA, DROPPED_SCHEMA


def pairs_table(*rows: tuple[str, str, float]) -> pa.Table:
    return pa.table(
        {
            "score": pa.array([score for *_, score in rows], pa.float64()),
            "source_id": pa.array([source for source, *_ in rows], pa.string()),
            "target_id": pa.array([target for _, target, _ in rows], pa.string()),
        }
    )


def dropped_table(*rows: tuple[str, str, str, str | None]) -> pa.Table:
    names = ("side", "id", "reason", "kept_id")
    full = [{"file": "f", "line": 1, "text": "", **dict(zip(names, row, strict=True))} for row in rows]
    return pa.Table.from_pylist(full, schema=DROPPED_SCHEMA)


def candidates_table(*rows: tuple[str, str, int, int]) -> pa.Table:
    names = ("source_id", "target_id", "forward_rank", "backward_rank")
    full = [{"score": 1.0, "cosine": 0.5, **dict(zip(names, row, strict=True))} for row in rows]
    return pa.Table.from_pylist(full, schema=CANDIDATES_SCHEMA)


PAIRS = pairs_table(("s1", "t1", 1.3), ("s2", "t2", 1.2), ("s3", "t9", 1.1), ("s4", "t4", 0.8), ("s5", "t8", 0.7))
GOLD = Gold.from_pairs([(f"s{i}", f"t{i}") for i in (1, 2, 3, 4)], path="x.gold")


def test_all_pairs_without_a_threshold() -> None:
    result = evaluate_pairs(PAIRS, GOLD)
    assert (result.precision, result.recall) == (0.6, 0.75)
    assert result.f1 == pytest.approx(2 * 3 / 9)
    assert (result.threshold, result.threshold_from) == (None, "none")


def test_given_threshold_includes_its_own_score() -> None:
    result = evaluate_pairs(PAIRS, GOLD, threshold=1.2)
    assert (result.counts["extracted"], result.counts["correct"], result.threshold_from) == (2, 2, "given")
    assert result.missed["below_threshold"] == {"count": 1, "examples": [["s4", "t4"]]}
    assert result.missed["not_in_pairs"] == {"count": 1, "examples": [["s3", "t3"]]}


def test_tuned_threshold() -> None:
    result = evaluate_pairs(PAIRS, GOLD, threshold="tune")
    assert (result.threshold, result.threshold_from, result.counts["extracted"]) == (0.75, "tuned", 4)


def test_many_to_one_pairs() -> None:
    pairs = pairs_table(("s1", "t1", 1.3), ("s2", "t1", 1.2), ("s3", "t1", 1.1), ("s2", "t2", 1.0))
    result = evaluate_pairs(pairs, Gold.from_pairs([("s1", "t1"), ("s2", "t1"), ("s2", "t2")]))
    assert (result.counts["correct"], result.counts["extracted"]) == (3, 4)


def test_repeated_pairs_count_once_with_their_best_score() -> None:
    pairs = pairs_table(("s1", "t1", 0.5), ("s1", "t1", 1.5), ("s2", "t9", 1.0))
    result = evaluate_pairs(pairs, Gold.from_pairs([("s1", "t1")]), threshold="tune")
    assert (result.counts["rows"], result.counts["pairs"]) == (3, 2)
    assert (result.f1, result.threshold) == (1.0, 1.25)


def test_ids_in_many_chunks_and_types() -> None:
    parts = [PAIRS.slice(i, 1) for i in range(len(PAIRS))]
    chunked = pa.concat_tables(parts)
    large = chunked.set_column(1, "source_id", chunked["source_id"].cast(pa.large_string()).dictionary_encode())
    assert evaluate_pairs(large, GOLD, threshold="tune") == evaluate_pairs(PAIRS, GOLD, threshold="tune")


def test_duplicates_stand_for_the_kept_id() -> None:
    gold = Gold.from_pairs([("s1", "t1"), ("s1b", "t1"), ("s2b", "t2b"), ("s4", "t4")])
    dropped = dropped_table(
        ("source", "s1b", "duplicate", "s1"),
        ("source", "s2b", "duplicate", "s2"),
        ("target", "t2b", "duplicate", "t2"),
        # The same ids on the other side say nothing about this one.
        ("target", "s4", "duplicate", "t7"),
    )
    result = evaluate_pairs(PAIRS, gold, dropped)
    assert (result.counts["gold"], result.counts["gold_kept"], result.counts["correct"]) == (4, 3, 3)
    assert result.recall == 1.0


def test_kept_row_may_be_dropped_itself() -> None:
    gold = Gold.from_pairs([("s1", "t1"), ("s9b", "t2")])
    dropped = dropped_table(("source", "s9b", "duplicate", "s9"), ("source", "s9", "no_pieces", None))
    result = evaluate_pairs(PAIRS, gold, dropped)
    assert result.missed == {"source_no_pieces": {"count": 1, "examples": [["s9b", "t2"]]}}


def test_every_reason_for_a_miss() -> None:
    names = ("found", "short", "blank", "long", "far", "chosen_away", "limit", "low")
    gold = Gold.from_pairs([(f"s-{name}", f"t-{name}") for name in names])
    pairs = pairs_table(("s-found", "t-found", 2.0), ("s-short", "t-x", 1.9), ("s-low", "t-low", 1.0))
    dropped = dropped_table(
        ("source", "s-blank", "blank", None),
        ("target", "t-blank", "too_long", None),
        ("target", "t-long", "too_long", None),
        ("source", "s-far", "unmatched", None),
        ("source", "s-limit", "below_threshold", None),
        ("target", "t-limit", "below_threshold", None),
        ("source", "s-chosen_away", "below_threshold", None),
        ("target", "t-chosen_away", "unmatched", None),
    )
    candidates = candidates_table(
        ("s-found", "t-found", 1, 1),
        ("s-short", "t-short", 0, 4),
        ("s-chosen_away", "t-chosen_away", 2, 0),
        ("s-limit", "t-limit", 1, 1),
        ("s-low", "t-low", 1, 2),
        ("s-far", "t-other", 1, 1),
    )
    result = evaluate_pairs(pairs, gold, dropped, candidates, threshold=1.5)
    assert {reason: entry["examples"] for reason, entry in result.missed.items()} == {
        "below_threshold": [["s-limit", "t-limit"], ["s-low", "t-low"]],
        "not_neighbours": [["s-far", "t-far"]],
        "not_selected": [["s-short", "t-short"], ["s-chosen_away", "t-chosen_away"]],
        "source_blank": [["s-blank", "t-blank"]],
        "target_too_long": [["s-long", "t-long"]],
    }
    assert result.counts["unreachable"] == 3
    assert sum(entry["count"] for entry in result.missed.values()) == len(gold) - result.counts["correct"]


def test_at_most_five_examples() -> None:
    gold = Gold.from_pairs([("s1", "t1"), *[(f"s1{i}", f"t1{i}") for i in range(20)]])
    entry = evaluate_pairs(PAIRS, gold).missed["not_in_pairs"]
    assert entry["count"] == 20
    assert entry["examples"] == [[f"s1{i}", f"t1{i}"] for i in range(5)]


def test_recall_at_k_of_the_candidates() -> None:
    candidates = candidates_table(
        ("s1", "t1", 1, 3),
        ("s2", "t2", 0, 2),
        ("s3", "t3", 3, 0),
        ("s9", "t9", 4, 1),  # not gold, but k is that of the table
        ("s1", "t2", 2, 1),  # ids of gold pairs, yet no gold pair
    )
    assert evaluate_pairs(PAIRS, GOLD, candidates=candidates).recall_at == {
        "k": 4,
        "forward": [0.25, 0.25, 0.5, 0.5],
        "backward": [0.0, 0.25, 0.5, 0.5],
        "union": [0.25, 0.5, 0.75, 0.75],
    }


def test_candidates_of_two_directions_in_separate_rows() -> None:
    candidates = candidates_table(("s1", "t1", 2, 0), ("s1", "t1", 0, 3), ("s1", "t1", 4, 1))
    ranks = gold_ranks(candidates, PairIndex(IdIndex(["s1"]), IdIndex(["t1"]), np.zeros((2, 1), np.int64)))
    assert (ranks.forward.tolist(), ranks.backward.tolist()) == ([2], [1])


def test_recall_per_domain() -> None:
    gold = Gold.from_pairs([("s1", "t1", "news"), ("s2", "t2", "ui"), ("s3", "t3", "ui"), ("s1b", "t1", "ui")])
    result = evaluate_pairs(PAIRS, gold, dropped_table(("source", "s1b", "duplicate", "s1")))
    assert result.domains == {
        "news": {"correct": 1, "gold": 1, "recall": 1.0},
        "ui": {"correct": 2, "gold": 3, "recall": 0.666667},
    }


def test_no_correct_pair() -> None:
    result = evaluate_pairs(PAIRS, Gold.from_pairs([("s1", "t2")]), threshold="tune")
    assert (result.precision, result.recall, result.f1) == (0.0, 0.0, 0.0)
    assert "no mined pair is a gold pair" in result.warnings


@pytest.mark.parametrize("threshold", [None, 1.0, "tune"])
def test_no_pairs_at_all(threshold: Any) -> None:
    result = evaluate_pairs(pairs_table(), GOLD, threshold=threshold)
    assert (result.precision, result.recall, result.f1) == (0.0, 0.0, 0.0)
    assert result.warnings == ["the file of pairs holds no pairs: nothing was extracted"]


def test_no_gold_at_all() -> None:
    assert evaluate_pairs(PAIRS, Gold.from_pairs([]), threshold="tune").f1 == 0.0


def test_gold_ids_missing_from_the_corpus() -> None:
    with pytest.raises(InputError, match=r"x\.gold: 1 of 4 target ids \(25\.0%\) are not in the target corpus.*'t3'"):
        evaluate_pairs(PAIRS, GOLD, known_source={"s1", "s2", "s3", "s4"}, known_target={"t1", "t2", "t4"})


def test_no_overlap_is_an_error() -> None:
    gold = Gold.from_pairs([("1", "1"), ("2", "2")], path="x.gold")
    with pytest.raises(
        InputError, match=r"x\.gold: none of the 2 source ids occurs in the mined pairs.*'1' \(line 1\)"
    ):
        evaluate_pairs(PAIRS, gold)


def test_no_overlap_because_the_columns_are_exchanged() -> None:
    gold = Gold.from_pairs([(f"t{i}", f"s{i}") for i in (1, 2)])
    with pytest.raises(InputError, match="exchange its two columns, they are the other way round"):
        evaluate_pairs(PAIRS, gold)


@pytest.mark.parametrize(
    "pairs", [[("t1", "x"), ("t2", "y")], [("t1", "s1"), ("x", "s2"), ("y", "s3")], [("t1", "s1"), ("t2", "x")]]
)
def test_an_exchange_is_advised_only_where_it_mends(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match="give the gold file of this corpus"):
        evaluate_pairs(PAIRS, Gold.from_pairs(pairs))


def test_dropped_rows_count_for_the_advice_to_exchange() -> None:
    gold = Gold.from_pairs([("t1", "s1"), ("t9", "s9"), ("t8", "s8")])
    dropped = dropped_table(("source", "s9", "blank", None), ("target", "t9", "duplicate", "t1"))
    with pytest.raises(InputError, match="exchange its two columns"):
        evaluate_pairs(PAIRS, gold, dropped)
    with pytest.raises(InputError, match="give the gold file of this corpus"):
        evaluate_pairs(PAIRS, gold)


def test_scores_and_thresholds_are_finite() -> None:
    for score, message in ((math.inf, "row 2 has the score inf"), (-math.inf, "row 2 has the score -inf")):
        with pytest.raises(InputError, match=message):
            evaluate_pairs(pairs_table(("s1", "t1", 1.0), ("s2", "t2", score)), GOLD)
    for threshold in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"threshold = .*: give a finite number"):
            evaluate_pairs(PAIRS, GOLD, threshold=threshold)


def test_little_overlap_is_a_warning() -> None:
    gold = Gold.from_pairs([("s1", "t1"), *[(f"x{i}", f"y{i}") for i in range(3)]], path="x.gold")
    (warning,) = evaluate_pairs(PAIRS, gold).warnings
    assert warning.startswith(
        "x.gold: 6 of 8 gold ids (75.0%) occur neither in the pairs nor in candidates or dropped rows"
    )
    assert "wrong id column" in warning


def test_dropped_rows_and_candidates_cover_gold_ids() -> None:
    gold = Gold.from_pairs([("s1", "t1"), *[(f"x{i}", f"y{i}") for i in range(3)]])
    dropped = dropped_table(*[("source", f"x{i}", "unmatched", None) for i in range(3)])
    candidates = candidates_table(("s1", "y0", 1, 1), ("s1", "y1", 2, 1))
    assert evaluate_pairs(PAIRS, gold, dropped, candidates).warnings == []


def test_result_is_plain_sorted_json() -> None:
    gold = Gold.from_pairs([("s1", "t1", "news"), ("s3", "t3", "ui")])
    data = evaluate_pairs(PAIRS, gold, candidates=candidates_table(("s1", "t1", 1, 1)), threshold="tune").to_dict()
    assert list(data) == sorted(data)
    assert json.loads(json.dumps(data)) == data


def test_tables_may_be_parquet_files(tmp_path: Path) -> None:
    dropped = dropped_table(("target", "t3", "blank", None))
    candidates = candidates_table(("s1", "t1", 1, 1))
    pq.write_table(dropped, tmp_path / "dropped.parquet")
    pq.write_table(candidates, tmp_path / "candidates.parquet")
    in_memory = evaluate_pairs(PAIRS, GOLD, dropped, candidates)
    assert evaluate_pairs(PAIRS, GOLD, tmp_path / "dropped.parquet", tmp_path / "candidates.parquet") == in_memory


def test_faulty_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the mined pairs: column 'score' is missing"):
        evaluate_pairs(PAIRS.drop_columns(["score"]), GOLD)
    with pytest.raises(InputError, match=r"row 2 has no score \(1 such rows\)"):
        evaluate_pairs(pairs_table(("s1", "t1", 1.0), ("s2", "t2", math.nan)), GOLD)
    without_id = PAIRS.set_column(1, "source_id", pa.array(["s1", None, "s3", "s4", "s5"]))
    with pytest.raises(InputError, match="1 rows have no source_id"):
        evaluate_pairs(without_id, GOLD)
    with pytest.raises(InputError, match="column 'kept_id' is missing"):
        evaluate_pairs(PAIRS, GOLD, dropped_table().drop_columns(["kept_id"]))
    with pytest.raises(UsageError, match="no such file"):
        evaluate_pairs(PAIRS, GOLD, tmp_path / "none.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"broken\.parquet: not a readable Parquet file"):
        evaluate_pairs(PAIRS, GOLD, candidates=tmp_path / "broken.parquet")


def test_ledger_keeps_only_what_was_asked_for() -> None:
    ledger = read_ledger(
        dropped_table(*[("source", f"s{i}", "blank", None) for i in range(100)]), IdIndex(["s5"]), IdIndex(["s6"])
    )
    assert ledger.reason == {"source": {"s5": "blank"}, "target": {}}


names = st.sampled_from(["a", "b", "c", "d", "ä", ""])
pair_lists = st.lists(st.tuples(names, names, st.sampled_from([0.5, 0.7, 1.0, 1.5])), max_size=15)


@given(pair_lists, st.lists(st.tuples(names, names), min_size=1, max_size=8), st.sampled_from([None, 0.7, 1.2]))
def test_counts_equal_those_of_sets(
    rows: Sequence[tuple[str, str, float]], gold: Sequence[tuple[str, str]], threshold: float | None
) -> None:
    limit = -math.inf if threshold is None else threshold
    extracted = {(source, target) for source, target, score in rows if score >= limit}
    everything = {"a", "b", "c", "d", "ä", ""}
    result = evaluate_pairs(
        pairs_table(*rows),
        Gold.from_pairs(gold),
        None,
        None,
        threshold,
        known_source=everything,
        known_target=everything,
    )
    assert result.counts["extracted"] == len(extracted)
    assert result.counts["correct"] == len(extracted & set(gold))
    assert result.counts["gold_kept"] == len(set(gold))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"pairs": PAIRS.set_column(0, "score", pa.array(["x"] * 5))}, "the mined pairs: column 'score' holds no numb"),
        ({"pairs": PAIRS.set_column(1, "source_id", pa.array([1.0] * 5))}, "column 'source_id' is double: ids are te"),
        ({"pairs": PAIRS.set_column(2, "target_id", pa.array([["a"]] * 5))}, "column 'target_id' is list<"),
        (
            {"dropped": dropped_table(("source", "s1", "blank", None)).set_column(1, "id", pa.array([["s1"]]))},
            "the drop ledger: column 'id' is list<",
        ),
        (
            {
                "candidates": candidates_table(("s1", "t1", 1, 1))
                .drop_columns(["forward_rank"])
                .append_column("forward_rank", pa.array(["first"]))
            },
            "the table of candidates: column 'forward_rank' is string, not int64",
        ),
    ],
)
def test_columns_of_another_kind_are_named(tables: dict[str, pa.Table], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_pairs(**{"pairs": PAIRS, "gold": GOLD, **tables})


def test_whole_numbers_and_dictionaries_are_ids_too() -> None:
    pairs = pa.table({"score": [1.0], "source_id": [7], "target_id": pa.array(["t"]).dictionary_encode()})
    assert evaluate_pairs(pairs, Gold.from_pairs([("7", "t")])).f1 == 1.0


def test_recall_among_the_neighbours_of_a_single_gold_pair() -> None:
    gold = Gold.from_pairs([("s1", "t1")])
    assert evaluate_pairs(PAIRS, gold, candidates=candidates_table(("s1", "t1", 1, 2))).recall_at == {
        "k": 2,
        "forward": [1.0, 1.0],
        "backward": [0.0, 1.0],
        "union": [1.0, 1.0],
    }
