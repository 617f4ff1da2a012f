"""Pairs and candidates as tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mining.emit import ForwardCandidates, Rows, candidates_table, pairs_table
from mining.matching import CANDIDATE
from mining.search.neighbours import Neighbours
from mining.tsv import tsv_bytes

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
