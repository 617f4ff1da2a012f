from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.config.train import TrainConfig
from mining.training import step as step_module
from mining.training.negatives import false_negatives
from mining.training.objectives import OBJECTIVES, LossGradient, Objective, softmax
from mining.training.objectives.j_bi import EuclideanObjective
from mining.training.objectives.margin import MarginObjective
from mining.training.objectives.softmax import SoftmaxObjective
from mining.training.step import normalise, through_normalisation
from tests.training import slow_objectives as slow

DIM = 5
SEEDS = st.integers(0, 999)


def random_vectors(objective: Objective, pairs: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    shape = (2 + 2 * objective.negatives, pairs, DIM)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if objective.normalised:
        vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    return vectors.to(dtype).requires_grad_()


def random_present(objective: Objective, pairs: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((2, objective.negatives, pairs)) < 0.7)


def compare(found: LossGradient, vectors: torch.Tensor, expected: torch.Tensor) -> None:
    """The same loss, and the same gradient as torch finds for the slow one."""
    assert found.loss == pytest.approx(float(expected.detach()), rel=1e-9, abs=1e-11)
    assert found.gradient.shape == vectors.shape
    slope = torch.zeros_like(vectors)
    if expected.requires_grad:
        (found_slope,) = torch.autograd.grad(expected, vectors, allow_unused=True)
        slope = slope if found_slope is None else found_slope
    torch.testing.assert_close(found.gradient, slope, atol=1e-11, rtol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 7), SEEDS, st.sampled_from([0.1, 0.4, 1.5]))
def test_margin_equals_the_paper(pairs: int, seed: int, delta: float) -> None:
    objective = MarginObjective(delta=delta)
    vectors, present = random_vectors(objective, pairs, seed), random_present(objective, pairs, seed)
    compare(objective(vectors.detach(), present), vectors, slow.margin(vectors, delta, present))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 7), st.integers(1, 4), SEEDS, st.sampled_from([0.5, 10.0, 100.0]))
def test_j_bi_equals_the_paper(pairs: int, negatives: int, seed: int, delta: float) -> None:
    objective = EuclideanObjective(delta=delta, negatives=negatives)
    vectors, present = random_vectors(objective, pairs, seed), random_present(objective, pairs, seed)
    compare(objective(vectors.detach(), present), vectors, slow.j_bi(vectors, delta, present))


@settings(deadline=None, max_examples=100)
@given(
    pairs=st.integers(1, 9),
    negatives=st.integers(0, 3),
    seed=SEEDS,
    scale=st.sampled_from([1.0, 20.0, 40.0]),
    margin=st.sampled_from([0.0, 0.3, 1.0]),
    kinds=st.integers(1, 9),
    rows=st.sampled_from([1, 4, 512]),
)
def test_softmax_equals_cross_entropy(
    pairs: int, negatives: int, seed: int, scale: float, margin: float, kinds: int, rows: int
) -> None:
    objective = SoftmaxObjective(scale=scale, additive_margin=margin, negatives=negatives)
    vectors, present = random_vectors(objective, pairs, seed), random_present(objective, pairs, seed)
    groups = np.random.default_rng(seed).integers(0, kinds, (2, pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "_ROWS", rows)
        found = objective(vectors.detach(), present, false_negatives(*groups))
    compare(found, vectors, slow.softmax(vectors, scale, margin, groups, present))


@pytest.mark.parametrize(
    "objective",
    [
        MarginObjective(),
        SoftmaxObjective(),
        SoftmaxObjective(additive_margin=0.2, negatives=2),
        EuclideanObjective(delta=1.0, negatives=3),
    ],
)
def test_float32_is_close_to_float64(objective: Objective) -> None:
    exact = objective(random_vectors(objective, 40, 7).detach())
    vectors = random_vectors(objective, 40, 7, torch.float32).detach()
    before = vectors.clone()
    single = objective(vectors)
    assert single.gradient.dtype == torch.float32
    assert single.loss == pytest.approx(exact.loss, rel=1e-5)
    torch.testing.assert_close(single.gradient.double(), exact.gradient, atol=1e-6, rtol=1e-4)
    assert torch.equal(vectors, before)


@pytest.mark.parametrize("objective", [MarginObjective(), EuclideanObjective(delta=1.0, negatives=3)])
def test_missing_negatives_cost_nothing(objective: Objective) -> None:
    vectors = random_vectors(objective, 4, 3).detach()
    loss, gradient = objective(vectors, torch.zeros((2, objective.negatives, 4), dtype=torch.bool))
    assert loss == 0
    assert not gradient.any()


def test_softmax_without_its_negatives_is_the_one_that_takes_none() -> None:
    with_negatives = SoftmaxObjective(additive_margin=0.1, negatives=2)
    vectors = random_vectors(with_negatives, 4, 3).detach()
    found = with_negatives(vectors, torch.zeros((2, 2, 4), dtype=torch.bool))
    plain = SoftmaxObjective(additive_margin=0.1)(vectors[:2].contiguous())
    assert found.loss == pytest.approx(plain.loss)
    torch.testing.assert_close(found.gradient[:2], plain.gradient)
    assert not found.gradient[2:].any()


def test_softmax_of_a_pair_alone_is_nothing() -> None:
    loss, gradient = SoftmaxObjective(additive_margin=0.3)(random_vectors(SoftmaxObjective(), 1, 5).detach())
    assert loss == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12


def test_softmax_stands_the_most_distant_sentences() -> None:
    units = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
    loss, gradient = SoftmaxObjective(scale=40.0, additive_margin=1.0)(units)
    assert loss == pytest.approx(120.0)
    assert torch.isfinite(gradient).all()


def test_margin_of_the_softmax_asks_for_more() -> None:
    vectors = random_vectors(SoftmaxObjective(), 6, 2).detach()
    losses = [SoftmaxObjective(additive_margin=margin)(vectors).loss for margin in (0.0, 0.1, 0.3)]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), SEEDS, st.sampled_from([1, 4, 512]))
def test_gradient_through_normalisation_equals_autograd(rows: int, seed: int, block: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    vectors, by_units = torch.randn((2, rows, DIM), generator=chance, dtype=torch.float64)
    vectors.requires_grad_()
    units, norms = normalise(vectors.detach())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "_NORMALISED_ROWS", block)
        found = through_normalisation(by_units.clone(), units, norms)
    (expected,) = torch.autograd.grad(((vectors / vectors.norm(dim=1, keepdim=True)) * by_units).sum(), vectors)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-9)


def test_zero_vector_has_no_direction() -> None:
    units, _ = normalise(torch.zeros((1, 3)))
    assert not units.any()


def built(**settings: object) -> Objective:
    return TrainConfig.model_validate({"bitext": "a.txt", "model": "m", **settings}).build_objective()


def test_objectives_by_name() -> None:
    assert built() == MarginObjective(delta=0.4)
    assert built(objective="margin", delta=0.6, negatives=5) == MarginObjective(delta=0.6, negatives=1)
    softmax_ = SoftmaxObjective(scale=30, additive_margin=0.2, negatives=2)
    assert built(objective="softmax", scale=30, additive_margin=0.2, negatives=2) == softmax_
    assert built(objective="softmax").negatives == 0
    assert built(objective="j_bi", delta=10) == EuclideanObjective(delta=10, negatives=10)
    assert not built(objective="none").learns


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_objective_and_its_settings_have_help(name: str) -> None:
    assert OBJECTIVES[name].__doc__
    assert all(field.description for field in OBJECTIVES[name].fields().values())


@pytest.mark.parametrize(
    ("settings_", "reason"),
    [
        ({"objective": "softmax", "scale": 60, "additive_margin": 0.5}, "must not exceed 80"),
        ({"objective": "softmax", "scale": 0}, "greater than 0"),
        ({"objective": "softmax", "additive_margin": -0.1}, "greater than or equal to 0"),
        ({"objective": "softmax", "negatives": -1}, "greater than or equal to 0"),
        ({"objective": "j_bi", "negatives": 0}, "negatives\n.*greater than or equal to 1"),
        ({"objective": "hinge"}, "unknown objective 'hinge'"),
    ],
)
def test_unfit_settings_are_refused(settings_: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        built(**settings_)
