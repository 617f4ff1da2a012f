"""Pairs and candidates as tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mining.io.tsv import tsv_bytes
from mining.pairs import ForwardCandidates, Rows, candidates_table, pairs_table, reverse_ranks
from mining.schemas import CANDIDATE
from mining.search.topk import Neighbours

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
