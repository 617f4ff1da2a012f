"""Everything a training needs to go on where it was killed, in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from mining.encoder.model_folder import replace_file
from mining.errors import UsageError
from mining.training.adam import RowAdam
from mining.training.megabatch import MegaBatchSchedule

STATE_FILE = "state.safetensors"


@dataclass
class TrainingState:
    """Where a training stands.

    It is kept only between two mega-batches, when no mini-batch waits in the queue. Permutations and dropout are drawn
    from (seed, epoch) and (seed, step), so these numbers are the whole random state.
    """

    schedule: MegaBatchSchedule
    epoch: int = 0
    step: int = 0
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


def save_state(folder: Path, state: TrainingState, adam: RowAdam) -> None:
    """Write tables and numbers to one file, under a temporary name first: they cannot come apart."""
    tensors = {"table": adam.table, "first": adam.first, "second": adam.second}
    data = save({name: tensor.cpu() for name, tensor in tensors.items()}, {"state": json.dumps(asdict(state))})
    replace_file(folder / STATE_FILE, data)


def load_state(folder: Path, adam: RowAdam) -> TrainingState | None:
    """Fill `adam` from the checkpoint in `folder` and return where it stood; None when there is none.

    Raises UsageError when the file is damaged.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt", device=str(adam.table.device)) as file:
            numbers = json.loads(file.metadata()["state"])
            for name in ("table", "first", "second"):
                getattr(adam, name).copy_(file.get_tensor(name))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise UsageError(f"{path}: damaged checkpoint ({error}); start anew with --overwrite") from None
    numbers["schedule"] = MegaBatchSchedule(**numbers["schedule"])
    state = TrainingState(**numbers)
    adam.steps = state.step
    return state


def initial_table(rows: int, dim: int, width: float, seed: int) -> torch.Tensor:
    """(rows, dim) float32, uniform in (-width, width)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((rows, dim), generator=generator).mul_(2 * width).sub_(width)
