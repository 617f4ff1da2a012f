"""Bounds on the error of products hold for whatever vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search import tiles
from mining.search.tiles import float32_rounding, half_rounding
from tests.search.test_exact import unit_rows


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(0, 99), st.sampled_from([torch.float16, torch.bfloat16]), st.booleans())
def test_no_similarity_of_rounded_vectors_errs_by_more_than_the_bound(dim, seed, dtype, near):
    source = unit_rows(20, dim, seed)
    # Near vectors have the largest products, and lose most when they are rounded to half precision.
    target = np.ascontiguousarray(source[::-1]) if near else unit_rows(30, dim, seed + 1)
    left, right = torch.from_numpy(source), torch.from_numpy(target)
    exact = source.astype(np.float64) @ target.astype(np.float64).T
    for rounded in (False, True):
        similarities = left.to(dtype).float() @ right.to(dtype).float().T
        if rounded:
            similarities = similarities.to(dtype).float()
        bound = half_rounding(left, right, dtype, rounded)
        values = similarities.double().numpy()
        assert (np.abs(values - exact) <= bound.absolute + bound.relative * np.abs(values)).all()
    plain = (left @ right.T).double().numpy()
    assert (np.abs(plain - exact) <= float32_rounding(dim).absolute).all()


def test_measured_losses_are_smaller_than_the_worst_case():
    rows = torch.from_numpy(unit_rows(100, 300, 1))
    bound = half_rounding(rows, rows, torch.bfloat16, rounded=False).absolute
    assert bound < 2 * 2.0**-8
    assert half_rounding(rows, rows, torch.float16, rounded=False).absolute == pytest.approx(0.0, abs=4e-4)


def test_bounds_reckoned_by_hand(monkeypatch):
    assert float32_rounding(6) == (8 * 2.0**-24 + 2.0**-21, 0.0)
    monkeypatch.setattr(tiles, "_BLOCK", 2)
    # bfloat16 has eight bits: 1 + 2^-9 becomes 1, and 1 + 2^-10, 2^-8 + 2^-17 lose less.
    rows = torch.tensor([[1.0, 0.0], [1.0, 2.0**-8 + 2.0**-17], [0.0, 1 + 2.0**-9], [1 + 2.0**-10, 0.0], [0.0, 1.0]])
    for source, target in ((rows, rows[:1]), (rows[:1], rows)):
        loss = 2.0**-9 * (1 + 2.0**-10)
        left, right = (loss, 0.0) if len(source) > 1 else (0.0, loss)
        summed = (1 + left) * (1 + right) * float32_rounding(2).absolute
        bound = half_rounding(source, target, torch.bfloat16, rounded=True)
        assert bound.absolute == pytest.approx(left * (1 + 2.0**-20) + (1 + left) * right + summed, rel=1e-12)
        assert bound.relative == 2.0**-8 * (1 + 2.0**-10)
