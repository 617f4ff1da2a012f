from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import Pieces
from mining.training import TrainConfig
from mining.training import step as step_module
from mining.training.adam import RowAdam
from mining.training.prepare import PairPieces, prepare
from mining.training.step import gather, row_gradient, train_minibatch


def prepared(settings: dict[str, Any], tmp_path: Path, **changes: Any) -> tuple[TrainConfig, PairPieces]:
    config = TrainConfig.model_validate({**settings, **changes})
    return config, prepare(config, tmp_path, lambda stage, pairs: None)


def random_table(pairs: PairPieces, dim: int = 16) -> torch.Tensor:
    return torch.randn((pairs.vocabulary, dim), generator=torch.Generator().manual_seed(1))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_row_gradient_equals_the_sum_over_occurrences(lists: list[list[int]]) -> None:
    ids = np.array([value for one in lists for value in one], np.int32)
    bags = Pieces(ids, np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64))
    by_sum = torch.randn((len(lists), 3), generator=torch.Generator().manual_seed(0))
    expected = torch.zeros((7, 3))
    for bag, one in enumerate(lists):
        for piece in one:
            expected[piece] += by_sum[bag]
    rows, gradient = row_gradient(bags, by_sum)
    assert rows.tolist() == sorted(set(ids.tolist()))
    torch.testing.assert_close(gradient, expected[rows])


@pytest.mark.parametrize("objective", ["margin", "softmax"])
def test_gradient_by_the_table_equals_the_numerical_one(
    objective: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, pairs = prepared(settings, tmp_path, objective=objective, dim=4)
    table = random_table(pairs, 4).double()
    mega = gather(pairs, np.arange(24), table, config)
    recorded: list[tuple[torch.Tensor, torch.Tensor]] = []
    monkeypatch.setattr(RowAdam, "step", lambda self, rows, slope, rate: recorded.append((rows, slope)))

    def loss(values: torch.Tensor) -> float:
        return train_minibatch(mega, slice(8, 16), RowAdam(values), config, 0.1, 0)

    loss(table)
    rows, slope = recorded[0]
    for place in range(0, len(rows), 7):
        for column in range(4):
            moved = [table.clone(), table.clone()]
            moved[0][rows[place], column] += 1e-6
            moved[1][rows[place], column] -= 1e-6
            numerical = (loss(moved[0]) - loss(moved[1])) / 2e-6
            assert float(slope[place, column]) == pytest.approx(numerical, abs=1e-5)


def test_row_adam_equals_dense_adam_when_every_row_is_touched() -> None:
    start = torch.randn((1100, 3), generator=torch.Generator().manual_seed(0))
    dense = start.clone().requires_grad_()
    adam, reference = RowAdam(start.clone()), torch.optim.Adam([dense], lr=0.01)
    for number in range(5):
        dense.grad = torch.randn(start.shape, generator=torch.Generator().manual_seed(number))
        reference.step()
        adam.step(torch.arange(1100), dense.grad.clone(), 0.01)
    torch.testing.assert_close(adam.table, dense.detach())


def test_row_adam_leaves_other_rows_alone() -> None:
    adam = RowAdam(torch.ones((4, 2)))
    adam.step(torch.tensor([1, 3]), torch.ones((2, 2)), 0.1)
    assert (adam.table[[0, 2]] == 1).all()
    assert (adam.table[[1, 3]] < 1).all()


def test_clipping_bounds_the_gradient(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms = []
    monkeypatch.setattr(RowAdam, "step", lambda self, rows, slope, rate: norms.append(float(slope.norm())))
    for clip in (None, 0.01):
        config, pairs = prepared(settings, tmp_path, grad_clip=clip)
        table = random_table(pairs)
        mega = gather(pairs, np.arange(32), table, config)
        train_minibatch(mega, slice(0, 16), RowAdam(table), config, 0.1, 0)
    assert norms[0] > 0.02
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


def test_dropout_keeps_a_piece_of_every_sentence(settings: dict[str, Any]) -> None:
    config = TrainConfig.model_validate({**settings, "dropout": 0.9})
    bags = Pieces(np.arange(600, dtype=np.int32), np.arange(0, 601, 3))
    kept = step_module._drop(bags, config, 5)
    assert (kept.lengths >= 1).all()
    assert len(kept.ids) < 600
    assert step_module._drop(bags, config, 5).ids.tolist() == kept.ids.tolist()
    assert step_module._drop(bags, config, 6).ids.tolist() != kept.ids.tolist()
