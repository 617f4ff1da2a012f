"""Bounds on the error of products hold for whatever vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.search.proposals import float32_rounding, half_rounding
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
