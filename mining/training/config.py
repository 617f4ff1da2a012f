"""What decides a training."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from mining.corpus import BitextSpec
from mining.settings import Settings

RUNTIME_KEYS = ("model", "threads", "device", "checkpoint_minutes", "keep_checkpoint", "overwrite")
"""Settings that say where and how it runs, not what is learnt: they may differ when a training is taken up again."""

DEFAULT_EPOCHS = 10


class TrainConfig(Settings):
    """Settings of ``train``: the bitext, the vocabulary, the objective and its schedule.

    Sources: Wieting et al. 2019, sections 2 and 3 (margin 0.4, Adam 0.001, batches of 128, mega-batches of 60, shared
    vocabulary of 20,000 pieces, 300 dimensions); the annealing of mega-batches follows the code published with it.
    """

    bitext: BitextSpec
    model: str
    """folder to write"""
    languages: list[str] = Field(default_factory=list)
    """language codes of the two sides, kept in the model's description"""

    vocabulary: int = Field(default=20_000, ge=8)
    """sentencepiece pieces, shared by both languages; a small bitext may give fewer"""
    vocabulary_sentences: int = Field(default=500_000, ge=1)
    """sentences (of both sides together) that the vocabulary is learnt from, drawn at random"""
    character_coverage: float = Field(default=0.9999, gt=0, le=1)
    lowercase: bool = True
    """fold case (and NFKC) inside sentencepiece; else NFKC only"""
    min_pieces: int = Field(default=1, ge=1)
    """pairs with fewer pieces on either side are left out"""
    max_pieces: int = Field(default=100, ge=1)
    """longer sentences are cut for training (never for encoding)"""
    domain_column: str | None = None
    """column of the bitext that names the domain of a pair"""
    domain_cap: int | None = Field(default=None, ge=1)
    """at most so many pairs of one domain, the first in the order of the files"""

    dim: int = Field(default=300, ge=1)
    objective: Literal["margin", "softmax"] = "margin"
    """margin: hinge against the hardest negative of the mega-batch; softmax: cross entropy against the whole batch"""
    delta: float = Field(default=0.4, gt=0)
    """margin of the objective ``margin``"""
    scale: float = Field(default=20.0, gt=0, le=40)
    """inverse temperature of the objective ``softmax``"""
    batch: int = Field(default=128, ge=1)
    """pairs in a mini-batch"""
    mega_batch: int = Field(default=60, ge=1)
    """most mini-batches among which a hard negative is sought (``margin`` only)"""
    anneal: int = Field(default=150, ge=0)
    """the mega-batch grows by one mini-batch about every so many mini-batches; 0: full size from the start"""
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "linear"] = "linear"
    """constant learning rate, or falling to zero over the planned epochs or minutes"""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """probability that a piece of a sentence is left out in a step"""
    grad_clip: float | None = Field(default=None, gt=0)
    """largest norm of a step's gradient; the published trainings did not clip"""
    init: float = Field(default=0.1, gt=0)
    """piece vectors start uniform in (-init, init)"""
    epochs: int | None = Field(default=None, ge=1)
    """passes over the bitext; 10 unless `minutes` is given"""
    minutes: float | None = Field(default=None, gt=0)
    """wall-clock budget of the whole training, vocabulary included; a run that ends by it cannot be repeated exactly"""
    seed: int = Field(default=1, ge=0, lt=1 << 62)

    threads: int = Field(default=0, ge=0)
    """0: all cores; the same result to the last bit needs the same number"""
    device: str = "cpu"
    checkpoint_minutes: float = Field(default=1.0, ge=0)
    """least time between checkpoints; 0: at every mega-batch"""
    keep_checkpoint: bool = False
    overwrite: bool = False

    @model_validator(mode="before")
    @classmethod
    def _planned_end(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("epochs") is None and data.get("minutes") is None:
            return {**data, "epochs": DEFAULT_EPOCHS}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if (self.domain_cap is None) != (self.domain_column is None):
            raise ValueError("domain_column and domain_cap are given together or not at all")
        if self.min_pieces > self.max_pieces:
            raise ValueError(f"min_pieces {self.min_pieces} is above max_pieces {self.max_pieces}")
        return self

    def learnt(self) -> dict[str, Any]:
        """The settings that decide the model, as plain data."""
        return self.model_dump(mode="json", exclude=set(RUNTIME_KEYS))
