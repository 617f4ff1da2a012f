"""Training of sentence encoders from bitexts: data, objectives, mega-batches with hard negatives,
checkpoints."""

from __future__ import annotations

from mining.config.train import DevelopmentSettings, TrainConfig
from mining.training.trainer import Progress, is_trained, train

__all__ = ["DevelopmentSettings", "Progress", "TrainConfig", "is_trained", "train"]
