"""Training of sentence encoders from bitexts: data, objectives, mega-batches with hard negatives,
checkpoints. Each name is imported from its module when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mining.config.train import DevelopmentSettings, TrainConfig
    from mining.training.trainer import Progress, is_trained, train

__all__ = ["DevelopmentSettings", "Progress", "TrainConfig", "is_trained", "train"]

_MODULES = {
    **dict.fromkeys(("DevelopmentSettings", "TrainConfig"), "mining.config.train"),
    **dict.fromkeys(("Progress", "is_trained", "train"), "mining.training.trainer"),
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'mining.training' has no attribute '{name}'")
