"""Everything a training needs to go on where it was killed, in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save

from mining.encoder.networks import Network
from mining.errors import UsageError
from mining.io.atomic import replace_file
from mining.io.files import map_buffer
from mining.io.json_file import parse_json
from mining.io.tensors import read_tensors
from mining.shown import short
from mining.training.adam import Adam
from mining.training.curves import Point
from mining.training.sampling import MegaBatchSchedule

STATE_FILE = "state.safetensors"
BEST_FILE = "best.safetensors"


@dataclass
class TrainingState:
    """Where a training stands.

    It is kept only between two mega-batches, when no mini-batch waits in the queue. Permutations,
    dropout and random negatives are drawn from (seed, epoch), (seed, step) and (seed, mega-batch),
    so these numbers are the whole random state.
    """

    schedule: MegaBatchSchedule
    epoch: int = 0
    step: int = 0
    mega_batches: int = 0
    pairs: int = 0
    """pairs seen, over all epochs"""
    loss: float = 0.0
    """running mean of the loss"""
    seconds: float = 0.0
    """wall-clock seconds used so far, earlier runs included"""
    losses: list[float] = field(default_factory=list)
    """mean loss of each finished epoch"""
    epoch_loss: float = 0.0
    """sum of the losses of this epoch's steps"""
    epoch_steps: int = 0
    curve: list[Point] = field(default_factory=list)
    """points of the curves: step, pairs, loss, learning rate, mega-batch, and the development
    metric where measured"""
    measured: int = 0
    """step at which the development set was measured last"""
    best: float | None = None
    """best value of the development metric"""
    best_step: int = 0
    stale: int = 0
    """measurements since the best one"""


def save_state(folder: Path, state: TrainingState, adam: Adam) -> None:
    """Write parameters, moments and numbers to one file, under a temporary name first: they cannot
    come apart."""
    tensors = {name: tensor.cpu() for name, tensor in _tensors(adam).items()}
    replace_file(folder / STATE_FILE, save(tensors, {"state": json.dumps(asdict(state))}))


def load_state(folder: Path, adam: Adam) -> TrainingState | None:
    """Fill `adam` from the checkpoint in `folder` and return where it stood; None when there is
    none.

    Raises UsageError when the file is damaged.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    metadata = _fill(path, _tensors(adam))
    try:
        numbers = parse_json(metadata["state"].encode())
        numbers["schedule"] = MegaBatchSchedule(**numbers["schedule"])
        state = TrainingState(**numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None
    adam.steps = state.step
    return state


def save_best(folder: Path, network: Network) -> None:
    """Keep the parameters that the development set likes best so far."""
    replace_file(folder / BEST_FILE, save({name: tensor.cpu() for name, tensor in network.tensors().items()}))


def load_best(folder: Path, network: Network) -> None:
    """Put the parameters kept by `save_best` into `network`."""
    _fill(folder / BEST_FILE, dict(network.tensors()))


def _tensors(adam: Adam) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint by name, the ones in use themselves."""
    parts = (
        ("value", adam.network.tensors()),
        ("first", adam.first),
        ("second", adam.second),
        ("initial", adam.initial),
    )
    return {f"{part}.{name}": tensor for part, tensors in parts for name, tensor in tensors.items()}


def _fill(path: Path, tensors: dict[str, torch.Tensor]) -> dict[str, str]:
    """Copy the file's tensors into `tensors`; returns the file's metadata."""
    try:
        found, metadata = read_tensors(map_buffer(path))
        for name, tensor in tensors.items():
            # Copying would spread a shorter tensor over a longer one.
            if found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
                raise ValueError(f"'{short(name)}' is not as large as here")
            tensor.copy_(found[name])
    except (KeyError, ValueError) as error:
        raise _damaged(path, error) from None
    return metadata


def _damaged(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path}: damaged checkpoint ({error}); start anew with --overwrite")
