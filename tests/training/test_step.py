from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mining.encoder import Tokens
from mining.encoder.networks import Gradients
from mining.encoder.networks.average import AverageNetwork
from mining.training import TrainConfig
from mining.training import step as step_module
from mining.training.adam import Adam
from mining.training.data import PreparedPairs
from mining.training.objectives import Objective
from mining.training.start import start_network
from mining.training.step import MegaBatch, gather, train_minibatch
from mining.training.trainer import training_pairs

Made = tuple[TrainConfig, PreparedPairs, Objective]
Make = Callable[..., Made]


@pytest.fixture
def make(settings: dict[str, Any], tmp_path: Path) -> Make:
    def made(**changes: Any) -> Made:
        config = TrainConfig.model_validate({**settings, **changes})
        return config, training_pairs(config, tmp_path / "work", lambda progress: None), config.build_objective()

    return made


class _Recording(Adam):
    """Keeps the gradients, and the parameters as they are."""

    def step(self, gradients: Gradients, learning_rate: float) -> None:
        self.seen = gradients


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "margin"},
        {"objective": "margin", "negative_pool": "monolingual", "negative_choice": "mix"},
        {"objective": "softmax"},
        {"objective": "softmax", "negatives": 2, "additive_margin": 0.1},
        {"objective": "j_bi", "negatives": 3},
    ],
)
def test_gradient_by_the_table_equals_the_numerical_one(changes: dict[str, Any], make: Make) -> None:
    config, pairs, objective = make(dim=4, **changes)
    table = torch.randn((pairs.tokenizers[0].size, 4), generator=torch.Generator().manual_seed(1)).double()
    network = AverageNetwork({"pieces": table})
    mega = gather(pairs, np.arange(24), network, config, 0, objective)

    def loss(values: torch.Tensor) -> tuple[float, Gradients]:
        adam = _Recording(AverageNetwork({"pieces": values}))
        return train_minibatch(mega, slice(8, 16), adam, objective, config, 0.1, 0), adam.seen

    rows, slope = loss(table)[1].rows["pieces"]
    for place in range(0, len(rows), 7):
        for column in range(4):
            moved = [table.clone(), table.clone()]
            moved[0][rows[place], column] += 1e-6
            moved[1][rows[place], column] -= 1e-6
            numerical = (loss(moved[0])[0] - loss(moved[1])[0]) / 2e-6
            assert float(slope[place, column]) == pytest.approx(numerical, abs=1e-5)


def test_clipping_bounds_the_gradient(make: Make) -> None:
    norms = []
    for largest in (None, 0.01):
        config, pairs, objective = make(grad_clip=largest)
        network = start_network(config, pairs)
        adam = _Recording(network)
        mega = gather(pairs, np.arange(32), network, config, 0, objective)
        train_minibatch(mega, slice(0, 16), adam, objective, config, 0.1, 0)
        norms.append(float(adam.seen.rows["pieces"][1].norm()))
    assert norms[0] > 0.02
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


def gathered(make: Make, number: int = 0, **changes: Any) -> MegaBatch:
    config, pairs, objective = make(**changes)
    return gather(pairs, np.arange(40), start_network(config, pairs), config, number, objective)


def test_random_negatives_are_drawn_by_seed_and_mega_batch(make: Make) -> None:
    def chosen(number: int, seed: int) -> list[int]:
        negatives = gathered(make, number, negative_choice="random", seed=seed).negatives
        assert negatives is not None
        return negatives.blocks(slice(0, 40)).reshape(-1).tolist()

    assert chosen(3, 1) == chosen(3, 1)
    assert chosen(3, 1) != chosen(4, 1)
    assert chosen(3, 1) != chosen(3, 2)


def test_bilingual_negatives_are_of_the_other_side_and_monolingual_ones_of_either(make: Make) -> None:
    sides = {}
    for pool in ("bilingual", "monolingual"):
        negatives = gathered(make, negative_pool=pool, negative_choice="random").negatives
        assert negatives is not None
        sides[pool] = negatives.of_source >= 40, negatives.of_target >= 40
    assert sides["bilingual"][0].all()
    assert not sides["bilingual"][1].any()
    assert 0 < sides["monolingual"][0].mean() < 1


def test_languages_kept_apart_have_ids_of_their_own(make: Make) -> None:
    mega = gathered(make, shared=False, languages=["aa", "bb"])
    config, pairs, _ = make(shared=False, languages=["aa", "bb"])
    size = pairs.tokenizers[0].size
    split = mega.texts[0].offsets[len(mega)]
    assert (mega.texts[0].ids[:split] < size).all()
    assert (mega.texts[0].ids[split:] >= size).all()
    assert len(start_network(config, pairs).tables["pieces"]) == 2 * size


BAGS = Tokens(np.arange(600, dtype=np.int32), np.arange(0, 601, 3))


def test_dropout_keeps_a_unit_of_every_sentence(settings: dict[str, Any]) -> None:
    config = TrainConfig.model_validate({**settings, "dropout": 0.9})
    kept = step_module._drop(BAGS, config, 5, 0)
    assert (kept.lengths >= 1).all()
    assert len(kept.ids) < 600
    assert step_module._drop(BAGS, config, 5, 0).ids.tolist() == kept.ids.tolist()
    assert step_module._drop(BAGS, config, 6, 0).ids.tolist() != kept.ids.tolist()
    assert step_module._drop(BAGS, config, 5, 1).ids.tolist() != kept.ids.tolist()


def test_scrambling_changes_the_order_of_some_sentences_only(settings: dict[str, Any]) -> None:
    config = TrainConfig.model_validate({**settings, "encoder": "lstm", "scramble": 0.5})
    mixed = step_module._scramble(BAGS, config, 5)
    before, after = BAGS.ids.reshape(-1, 3), mixed.ids.reshape(-1, 3)
    assert (np.sort(after, axis=1) == before).all()
    changed = (after != before).any(1).mean()
    # Of the half that is chosen a sixth falls into its old order.
    assert 0.25 < changed < 0.6
    assert step_module._scramble(BAGS, config, 6).ids.tolist() != mixed.ids.tolist()
