from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mining.encoder.networks import Gradients
from mining.encoder.networks.average import AverageNetwork
from mining.errors import UsageError
from mining.training.adam import Adam
from mining.training.sampling import MegaBatchSchedule
from mining.training.state import (
    BEST_FILE,
    STATE_FILE,
    TrainingState,
    load_best,
    load_state,
    save_best,
    save_state,
)


def stepped(seed: int, rows: int = 6) -> Adam:
    """An optimiser after a step on some rows, pulled to where it began."""
    chance = torch.Generator().manual_seed(seed)
    tables = {"pieces": torch.randn((rows, 3), generator=chance), "words": torch.randn((4, 3), generator=chance)}
    network = AverageNetwork(tables, projection=torch.randn((2, 3), generator=chance))
    initial = {name: table.clone() for name, table in tables.items()}
    adam = Adam(network, pull=0.1, initial=initial)
    slopes = torch.randn((2, 3), generator=chance)
    adam.step(Gradients({"words": (torch.tensor([0, 3]), slopes.clone())}, {"projection": slopes.clone()}), 0.1)
    return adam


def everything(adam: Adam) -> dict[str, torch.Tensor]:
    parts = {"value": adam.network.tensors(), "first": adam.first, "second": adam.second, "initial": adam.initial}
    return {f"{part} {name}": tensor.clone() for part, of in parts.items() for name, tensor in of.items()}


def test_a_checkpoint_brings_everything_back(tmp_path: Path) -> None:
    adam, other = stepped(1), stepped(2)
    state = TrainingState(
        MegaBatchSchedule(9, 5, current=4, grow=True, position=12),
        epoch=2,
        step=31,
        mega_batches=11,
        losses=[0.5, 0.1 + 0.2],
        curve=[{"step": 31, "loss": 1 / 3, "development": 71.5}],
        best=71.5,
        best_step=31,
        stale=2,
    )
    save_state(tmp_path, state, adam)
    assert load_state(tmp_path, other) == state
    assert other.steps == 31
    wanted, found = everything(adam), everything(other)
    assert wanted.keys() == found.keys()
    for name, tensor in wanted.items():
        assert torch.equal(tensor, found[name]), name


def test_without_a_file_nothing_is_loaded(tmp_path: Path) -> None:
    adam = stepped(1)
    before = everything(adam)
    assert load_state(tmp_path, adam) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in everything(adam).items())


def test_the_best_parameters_come_back(tmp_path: Path) -> None:
    adam, other = stepped(1), stepped(2)
    save_best(tmp_path, adam.network)
    load_best(tmp_path, other.network)
    for name, tensor in adam.network.tensors().items():
        assert torch.equal(tensor, other.network.tensors()[name])


@pytest.mark.parametrize("name", [STATE_FILE, BEST_FILE])
def test_damage_is_named(name: str, tmp_path: Path) -> None:
    adam = stepped(1)
    save_state(tmp_path, TrainingState(MegaBatchSchedule(1, 1)), adam)
    save_best(tmp_path, adam.network)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(UsageError, match=rf"{name}: damaged checkpoint .*--overwrite"):
        load_state(tmp_path, adam) if name == STATE_FILE else load_best(tmp_path, adam.network)


def test_parameters_of_another_shape_are_damage(tmp_path: Path) -> None:
    save_state(tmp_path, TrainingState(MegaBatchSchedule(1, 1)), stepped(1))
    with pytest.raises(UsageError, match="damaged checkpoint"):
        load_state(tmp_path, stepped(1, rows=7))


@pytest.mark.parametrize("shape", [(1, 3), (3,), ()])
def test_parameters_are_not_spread_over_larger_ones(shape: tuple[int, ...], tmp_path: Path) -> None:
    adam = stepped(1)
    save_best(tmp_path, adam.network)
    name = next(iter(adam.network.tensors()))
    tensors = {**load_file(tmp_path / BEST_FILE), name: torch.ones(shape)}
    save_file(tensors, tmp_path / BEST_FILE)
    with pytest.raises(UsageError, match="is not as large as here"):
        load_best(tmp_path, adam.network)


@pytest.mark.parametrize(
    "text", [None, "{", "[]", "[" * 100_000, '{"schedule": {}}', '{"schedule": {"largest": 1}, "x": 1}']
)
def test_numbers_that_cannot_be_are_damage(text: str | None, tmp_path: Path) -> None:
    adam = stepped(1)
    save_state(tmp_path, TrainingState(MegaBatchSchedule(1, 1)), adam)
    save_file(load_file(tmp_path / STATE_FILE), tmp_path / STATE_FILE, {} if text is None else {"state": text})
    with pytest.raises(UsageError, match="damaged checkpoint"):
        load_state(tmp_path, adam)
