from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, normalize

from mining.training.megabatch import false_negatives
from mining.training.objectives import margin_loss, normalise, softmax_loss, through_normalisation


def random_vectors(parts: int, pairs: int, seed: int) -> torch.Tensor:
    return torch.randn((parts, pairs, 5), generator=torch.Generator().manual_seed(seed))


def slow_margin(vectors: torch.Tensor, delta: float, has_negative: np.ndarray) -> torch.Tensor:
    """The formula of the paper, one pair at a time."""

    def cosine(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return one @ other / (one.norm() * other.norm())

    total = torch.zeros(())
    for i in range(vectors.shape[1]):
        source, target, wrong_target, wrong_source = vectors[:, i]
        if has_negative[0, i]:
            total = total + (delta - cosine(source, target) + cosine(source, wrong_target)).clamp(min=0)
        if has_negative[1, i]:
            total = total + (delta - cosine(source, target) + cosine(target, wrong_source)).clamp(min=0)
    return total / vectors.shape[1]


def slow_softmax(vectors: torch.Tensor, scale: float, groups: np.ndarray) -> torch.Tensor:
    source, target = normalize(vectors, dim=-1)
    logits = scale * (source @ target.T)
    same = (groups[0][:, None] == groups[0]) | (groups[1][:, None] == groups[1])
    hidden = torch.from_numpy(same & ~np.eye(len(logits), dtype=bool))
    logits = logits.masked_fill(hidden, -torch.inf)
    truth = torch.arange(len(logits))
    return (cross_entropy(logits, truth) + cross_entropy(logits.T, truth)) / 2


def compare(fast: tuple[float, torch.Tensor], vectors: torch.Tensor, slow: torch.Tensor) -> None:
    """The same loss, and the same gradient as torch finds for the slow one."""
    flat = vectors.detach().reshape(-1, vectors.shape[-1])
    units, norms = normalise(flat)
    loss, by_units = fast
    gradient = through_normalisation(by_units.reshape(flat.shape), units, norms).view_as(vectors)
    assert loss == pytest.approx(float(slow.detach()), abs=1e-5)
    if slow.requires_grad:
        (expected,) = torch.autograd.grad(slow, vectors)
        torch.testing.assert_close(gradient, expected, atol=2e-5, rtol=1e-4)
    else:
        assert not gradient.any()


def units_of(vectors: torch.Tensor) -> torch.Tensor:
    return normalise(vectors.detach().reshape(-1, vectors.shape[-1]))[0].view(vectors.shape)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 999), st.sampled_from([0.1, 0.4, 1.5]))
def test_margin_equals_the_paper(pairs: int, seed: int, delta: float) -> None:
    vectors = random_vectors(4, pairs, seed).requires_grad_()
    has_negative = np.random.default_rng(seed).random((2, pairs)) < 0.8
    fast = margin_loss(units_of(vectors), delta, torch.from_numpy(has_negative))
    compare(fast, vectors, slow_margin(vectors, delta, has_negative))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.integers(0, 999), st.sampled_from([1.0, 20.0, 40.0]), st.integers(1, 8))
def test_softmax_equals_cross_entropy(pairs: int, seed: int, scale: float, kinds: int) -> None:
    vectors = random_vectors(2, pairs, seed).requires_grad_()
    groups = np.random.default_rng(seed).integers(0, kinds, (2, pairs))
    fast = softmax_loss(units_of(vectors), scale, false_negatives(*groups))
    compare(fast, vectors, slow_softmax(vectors, scale, groups))


def test_softmax_stands_the_most_distant_sentences() -> None:
    units = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
    loss, gradient = softmax_loss(units, 40.0, (np.arange(2), np.arange(2)))
    assert loss == pytest.approx(80.0)
    assert torch.isfinite(gradient).all()
