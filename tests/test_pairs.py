"""Pairs and candidates as tables, and files of pairs."""

import json
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mining.errors import InputError, UsageError
from mining.io.parquet import read_parquet, write_parquet
from mining.io.tsv import tsv_bytes, write_tsv
from mining.pairs import ForwardCandidates, Rows, candidates_table, pairs_table, read_pairs_file, reverse_ranks
from mining.schemas import CANDIDATE, PAIRS_SCHEMA
from mining.search.topk import Neighbours


def table(rows: int, text: str = "a text") -> pa.Table:
    row = {"score": 1.25, "cosine": 0.5, "source_mean": 0.4, "target_mean": 0.4, "rank": 1, "direction": "both"}
    row |= {"source_text": text, "target_text": "Ein Text", "source_occurrences": 1, "target_occurrences": 2}
    return pa.Table.from_pylist(
        [{**row, "source_id": f"s{i}", "target_id": f"t{i}"} for i in range(rows)], schema=PAIRS_SCHEMA
    )


def test_tsv_replaces_what_would_break_it_and_parquet_keeps_it(tmp_path):
    odd = table(1, "a\tb\nc\rd\u2028e")
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [odd])
    lines = (tmp_path / "a.tsv").read_bytes().decode().split("\n")
    assert len(lines) == 3
    assert lines[1].split("\t")[8] == "a b c d\u2028e"
    assert lines[1].split("\t")[0] == "1.250000"
    write_parquet(tmp_path / "a.parquet", PAIRS_SCHEMA, [odd])
    assert read_pairs_file(tmp_path / "a.parquet").column("source_text").to_pylist() == ["a\tb\nc\rd\u2028e"]


def test_files_of_pairs_with_byte_order_marks(tmp_path):
    pairs = table(3)
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [pairs])
    lines = (tmp_path / "a.tsv").read_bytes().split(b"\n")
    (tmp_path / "a.tsv").write_bytes(b"\n".join(b"\xef\xbb\xbf" + line for line in lines[:-1]))
    assert read_pairs_file(tmp_path / "a.tsv").equals(pairs)
    rows = [("\ufeff" + json.dumps(row) + "\n").encode() for row in pairs.to_pylist()]
    (tmp_path / "a.jsonl").write_bytes(b"".join(rows))
    assert read_pairs_file(tmp_path / "a.jsonl").equals(pairs)


def test_tsv_and_jsonl_come_back(tmp_path):
    pairs = table(3)
    write_tsv(tmp_path / "a.tsv", PAIRS_SCHEMA, [pairs])
    assert read_pairs_file(tmp_path / "a.tsv").equals(pairs)
    with lzma.open(tmp_path / "a.jsonl.xz", "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in pairs.to_pylist())
    assert read_pairs_file(tmp_path / "a.jsonl.xz").equals(pairs)


def test_no_pairs_are_a_file_too(tmp_path):
    for path in (tmp_path / "a.tsv", tmp_path / "a.parquet"):
        (write_tsv if path.suffix == ".tsv" else write_parquet)(path, PAIRS_SCHEMA, [])
        assert len(read_pairs_file(path)) == 0


def test_faulty_files_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"none.tsv: no such file of pairs"):
        read_pairs_file(tmp_path / "none.tsv")
    (tmp_path / "x.csv").write_text("a", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pairs are read from .parquet, .tsv or .jsonl"):
        read_pairs_file(tmp_path / "x.csv")
    (tmp_path / "x.tsv").write_text("score\tcosine\n1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x.tsv:2: 1 columns where the first line names 2"):
        read_pairs_file(tmp_path / "x.tsv")
    (tmp_path / "y.tsv").write_text("score\n1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="column 'cosine' is missing; its columns are score"):
        read_pairs_file(tmp_path / "y.tsv")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_parquet(tmp_path / "x.parquet")


def pairs_of(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return read_pairs_file(path, ["score", "source_id", "target_id"])


def test_columns_that_are_not_asked_for_do_not_matter(tmp_path):
    wanted = {"score": [1.5], "source_id": ["1"], "target_id": ["b"]}
    assert pairs_of(tmp_path / "a.tsv", "x\ttarget_id\tx\tscore\tsource_id\n\tb\t\t1.5\t1\n").to_pydict() == wanted
    lines = '{"score": 1.5, "source_id": 1, "target_id": "b", "x": [1]}\n'
    assert pairs_of(tmp_path / "a.jsonl", lines).to_pydict() == wanted
    table = pa.table({"x": pa.array([[1]]), **wanted, "source_id": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_pairs_file(tmp_path / "a.parquet", ["score", "source_id", "target_id"]).to_pydict() == wanted


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "score\tscore\tsource_id\ttarget_id\n", "column 'score' stands twice"),
        ("a.tsv", "score\tsource_id\n", "column 'target_id' is missing; its columns are score, source_id"),
        ("a.tsv", "score\tsource_id\ttarget_id\nx\ta\tb\n", "a value does not fit its column: .*'x'"),
        ("a.jsonl", "\n[1]\n", "a.jsonl:1: not JSON lines"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: not a JSON object: each line holds one pair"),
        (
            "a.jsonl",
            '{"score": 1, "source_id": "a", "target_id": "b"}\n{"score": 1}\n',
            "a.jsonl:2: .*'source_id' is missing",
        ),
        ("a.jsonl", '{"score": [1], "source_id": "a", "target_id": "b"}\n', "a value does not fit its column"),
        (
            "a.jsonl",
            '{"score": 1, "source_id": "a", "target_id": 1}\n{"score": 1, "source_id": 1, "target_id": 2}\n',
            "a value does not fit its column",
        ),
        ("a.jsonl", '{"score": 1, "source_id": 1.5, "target_id": 1}\n', "column 'source_id' holds numbers with dec"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, name, content, message):
    with pytest.raises((UsageError, InputError), match=message):
        pairs_of(tmp_path / name, content)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_a_line_that_is_no_utf8_is_named(tmp_path, name):
    with pytest.raises(
        InputError, match=rf"{name}:2: invalid UTF-8 in a file of mined pairs: correct or remove the line"
    ):
        pairs_of(tmp_path / name, b'{"score": 1, "source_id": "a", "target_id": "b"}\n\xff\n')


def test_pairs_in_parquet_of_other_columns_are_named(tmp_path):
    whole = {"score": pa.array([1.0]), "source_id": pa.array(["a"]), "target_id": pa.array(["b"])}
    for column, values, message in (
        ("score", pa.array(["x"]), "a value does not fit its column"),
        ("target_id", pa.array([1.0]), "column 'target_id' holds numbers with decimals"),
        ("target_id", pa.array([["b"]]), "a value does not fit its column"),
    ):
        pq.write_table(pa.table({**whole, column: values}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=rf"a\.parquet: {message}"):
            read_pairs_file(tmp_path / "a.parquet", list(whole))
    pq.write_table(pa.table({"score": whole["score"]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="column 'source_id' is missing; its columns are score"):
        read_pairs_file(tmp_path / "a.parquet", list(whole))


def test_a_lone_surrogate_in_json_becomes_a_replacement(tmp_path):
    lines = '{"score": 1, "source_id": "\\ud800", "target_id": "b"}\n'
    assert pairs_of(tmp_path / "a.jsonl", lines).column("source_id").to_pylist() == ["\ufffd"]


#: Rounded to six decimals they are zeros, the negative ones among them zeros with a sign.
NEARLY_ZERO = [-4e-7, 4e-7, -0.0, 0.0, -1e-300]


def no_signs(column: pa.ChunkedArray) -> bool:
    return column.to_pylist() == [0.0] * len(column) and not np.signbit(column.to_numpy()).any()


def test_pairs_have_no_negative_zeros() -> None:
    n = len(NEARLY_ZERO)
    pairs = np.zeros(n, CANDIDATE)
    pairs["score"] = pairs["cosine"] = NEARLY_ZERO
    rows = Rows(pa.array(["x"] * n), pa.array(["y"] * n), np.ones(n, np.int64))
    table = pairs_table(pairs, rows, rows, np.array(NEARLY_ZERO), np.array(NEARLY_ZERO))
    for name in ("score", "cosine", "source_mean", "target_mean"):
        assert no_signs(table.column(name)), name
        assert tsv_bytes([table.column(name)]) == b"0.000000\n" * n


@pytest.mark.parametrize("forward", [True, False])
def test_candidates_have_no_negative_zeros(forward: bool) -> None:
    n = len(NEARLY_ZERO)
    values = np.array(NEARLY_ZERO)[:, None]
    lists = Neighbours(np.arange(n)[:, None], values.astype(np.float32))
    block = ForwardCandidates(np.arange(n), lists, values, np.zeros((n, 1), np.int32))
    names = pa.array([str(i) for i in range(n)])
    table = candidates_table(block, names, names, forward=forward)
    assert len(table) == n
    assert no_signs(table.column("score"))
    assert no_signs(table.column("cosine"))


def test_candidates_of_the_target_are_those_that_no_source_row_found() -> None:
    lists = Neighbours(np.array([[4, 7], [5, -1]]), np.array([[0.5, 0.25], [0.125, -np.inf]], np.float32))
    scores = np.array([[1.5, 1.25], [1.125, -np.inf]])
    block = ForwardCandidates(np.array([10, 11]), lists, scores, np.array([[0, 3], [0, 0]], np.int32))
    ids, theirs = pa.array(["x", "y"]), pa.array(["a", "b", "c", ""])
    forward = candidates_table(block, ids, theirs, forward=True)
    assert [tuple(row.values()) for row in forward.to_pylist()] == [
        ("x", "a", 1.5, 0.5, 1, 0),
        ("x", "b", 1.25, 0.25, 2, 3),
        ("y", "c", 1.125, 0.125, 1, 0),
    ]
    backward = candidates_table(block, ids, theirs, forward=False)
    assert [tuple(row.values()) for row in backward.to_pylist()] == [
        ("a", "x", 1.5, 0.5, 0, 1),
        ("c", "y", 1.125, 0.125, 0, 1),
    ]


@pytest.mark.parametrize("k", [1, 3, 700])
def test_ranks_in_the_lists_of_neighbours_take_bounded_memory(k: int) -> None:
    chance = np.random.default_rng(k)
    rows, lists = np.arange(50, 80), np.array([chance.permutation(900)[:k] for _ in range(40)])
    neighbours = chance.integers(0, 40, (30, k))
    asked = []

    def lists_of(some: np.ndarray) -> np.ndarray:
        asked.append(lists[some])
        return asked[-1]

    ranks = reverse_ranks(rows, neighbours, lists_of)
    for i, row in enumerate(rows.tolist()):
        for j in range(k):
            theirs = lists[neighbours[i, j]].tolist()
            assert ranks[i, j] == (theirs.index(row) + 1 if row in theirs else 0)
    assert max(part.size for part in asked) <= 1 << 22
    assert len(asked) == (4 if k == 700 else 1)
