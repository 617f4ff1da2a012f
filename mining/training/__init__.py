"""Training of the SP encoder from a bitext: vocabulary, mega-batches with hard negatives, checkpoints."""

from __future__ import annotations

from mining.training.config import TrainConfig
from mining.training.trainer import Progress, is_trained, train

__all__ = ["Progress", "TrainConfig", "is_trained", "train"]
