"""What decides a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from mining.config.base import Flag, Flags, Settings, one_of, with_new_names
from mining.config.corpus import BitextSpec
from mining.config.data import DataConfig
from mining.config.network import NetworkSettings
from mining.config.registered import with_entries
from mining.encoder.networks import NETWORKS
from mining.training.objectives import OBJECTIVES, Objective

RUNTIME_KEYS = (
    "model",
    "prepared",
    "threads",
    "device",
    "checkpoint_minutes",
    "keep_checkpoint",
    "overwrite",
    "tensorboard",
)
"""Settings that say where and how it runs, not what is learnt: they may differ when a training is
taken up again."""

DEFAULT_EPOCHS = 10
_ALWAYS_KEPT = (
    *("seed", "languages", "encoder", "combine", "dim", "projection", "activation", "hidden", "shared", "init"),
    *("initial_vectors", "pull", "l2", "objective", "delta", "scale", "additive_margin", "negatives"),
    *("negative_choice", "negative_pool", "mask_duplicates", "batch", "mega_batch", "anneal", "learning_rate"),
    *("schedule", "dropout", "scramble", "grad_clip", "epochs", "minutes", "development"),
)
"""Settings that models are described with, in their order; others of networks and objectives follow
where they are set, so that a new one does not make all models those of other settings."""


class DevelopmentSettings(Settings):
    """A development set: what a model is measured on while it is trained.

    ``mining``: `source`, `target` (TSV of `columns`) and `gold`, F1 by the ratio margin;
    ``tatoeba``: `paths` as for ``bitext evaluate tatoeba``; ``sts``: `paths` as for ``bitext
    evaluate sts``, mean Pearson. Higher is better for all (of an error rate, 100 minus it is
    taken).
    """

    metric: Literal["mining", "tatoeba", "sts"]
    paths: list[str] = Field(default_factory=list)
    source: str | None = None
    target: str | None = None
    columns: list[str] = Field(default_factory=lambda: ["id", "text"])
    """of `source` and `target`"""
    gold: str | None = None
    every: int = Field(default=1000, ge=1)
    """mini-batches between two measurements (taken at the next mega-batch)"""
    patience: int | None = Field(default=None, ge=1)
    """stop after so many measurements without a better one; None: only select the best"""

    @model_validator(mode="after")
    def _whole(self) -> DevelopmentSettings:
        if self.metric == "mining" and not (self.source and self.target and self.gold):
            raise ValueError("development: metric: mining needs source, target and gold")
        if self.metric != "mining" and not self.paths:
            raise ValueError(f"development: metric: {self.metric} needs paths")
        return self


class TrainConfig(DataConfig):
    """Settings of ``train``: the data, the encoder, the objective and its schedule.

    Sources: Wieting et al. 2019, sections 2 and 3 (margin 0.4, Adam 0.001, batches of 128,
    mega-batches of 60, shared vocabulary of 20,000 pieces, 300 dimensions); the annealing of
    mega-batches follows the code published with it.
    """

    bitext: Annotated[list[BitextSpec], Flags(path="--bitext", languages="", panel="Bitext")] = Field(
        default_factory=list
    )
    """Sentence pairs."""
    prepared: Annotated[str | None, Flag(panel="Options")] = None
    """Folder written by `bitext prepare`, in place of a bitext and all that decides the data; the
    tokens choose among those it has (all of them, where not set)."""
    model: Annotated[str, Flag("--model -m")]
    """Folder to write the model to."""
    languages: list[str] = Field(default_factory=list)
    """Language codes kept in the model's description; by default those of the bitexts."""

    encoder: Annotated[str, one_of(NETWORKS), Flag(panel="Encoder")] = "average"
    """How a sentence vector is made of the vectors of the tokens."""
    dim: int = Field(default=300, ge=1)
    """Length of a token's vector."""
    shared: Annotated[bool, Flag("--shared/--apart")] = True
    """One set of vectors for all languages; else each has its own (one bitext of two languages)."""
    init: float = Field(default=0.1, gt=0)
    """Vectors start uniform in (-init, init)."""
    initial_vectors: str | None = None
    """Word vectors to start from: text, a token and its numbers a line (of the first kind of
    tokens)."""
    pull: float = Field(default=0.0, ge=0)
    """Weight of the squared distance from the initial vectors, on the rows of each step."""
    l2: float = Field(default=0.0, ge=0)
    """Weight of the squared length of the vectors, on the rows of each step."""

    objective: Annotated[str, one_of(OBJECTIVES), Flag(panel="Objective")] = "margin"
    """What is minimised."""
    negatives: int | None = Field(default=None, ge=0)
    """Negatives a side from the mega-batch: softmax 0 by default, j_bi 10; margin has one."""
    negative_choice: Literal["max", "mix", "random"] = "max"
    """The hardest, half of them random, or random; j_bi by default random."""
    negative_pool: Literal["bilingual", "monolingual"] = "bilingual"
    """The other side of the bitext, or both sides (paraphrases)."""
    mask_duplicates: bool = True
    """A sentence equal to the translation is no negative; off: as in the published code."""
    batch: int = Field(default=128, ge=1)
    """Pairs in a mini-batch."""
    mega_batch: int = Field(default=60, ge=1)
    """Most mini-batches among which negatives are sought."""
    anneal: int = Field(default=150, ge=0)
    """The mega-batch grows by one mini-batch about every so many mini-batches; 0: full size from
    the start."""
    learning_rate: Annotated[float, Flag(panel="Course of the training")] = Field(default=1e-3, gt=0)
    """Step size of Adam."""
    schedule: Literal["constant", "linear"] = "linear"
    """Constant learning rate, or falling to zero over the planned epochs or minutes."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a token of a sentence is left out in a step."""
    scramble: float = Field(default=0.0, ge=0, le=1)
    """Share of the sentences of a step whose tokens are put in random order (encoder lstm)."""
    grad_clip: float | None = Field(default=None, gt=0)
    """Largest norm of a step's gradient; the published trainings did not clip."""
    epochs: int | None = Field(default=None, ge=1)
    """Passes over the bitext; 10 unless minutes are given."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall-clock budget of the whole training, vocabulary included; a run that ends by it cannot be
    repeated exactly."""
    development: Annotated[DevelopmentSettings | None, Flag("")] = None
    """Model selection and early stopping."""

    threads: int = Field(default=0, ge=0)
    """0: all cores; the same result to the last bit needs the same number."""
    device: str = "cpu"
    """cpu or cuda."""
    checkpoint_minutes: float = Field(default=1.0, ge=0)
    """Least time between checkpoints; 0: at every mega-batch."""
    keep_checkpoint: bool = False
    """Keep the checkpoint after success."""
    overwrite: Annotated[bool, Flag(panel="Options")] = False
    """Replace a model of another configuration."""
    tensorboard: bool = False
    """Write TensorBoard's event files too."""

    @classmethod
    def parts(cls) -> dict[str, list[type[Settings]]]:
        """Tokenizers, networks and objectives."""
        networks: list[type[Settings]] = [NETWORKS[name].settings for name in NETWORKS]
        objectives: list[type[Settings]] = [OBJECTIVES[name] for name in OBJECTIVES]
        return {**super().parts(), "encoder": networks, "objective": objectives}

    @classmethod
    def fields(cls) -> Mapping[str, FieldInfo]:
        """See `RegisteredSettings.fields`; networks and objectives are explained."""
        encoder = with_entries(cls.model_fields["encoder"], {name: NETWORKS[name].help() for name in NETWORKS})
        objectives = {name: OBJECTIVES[name].help for name in OBJECTIVES}
        objective = with_entries(cls.model_fields["objective"], objectives)
        return {**super().fields(), "encoder": encoder, "objective": objective}

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        data = dict(with_new_names(data, cls.renamed))
        if data.get("epochs") is None and data.get("minutes") is None:
            data["epochs"] = DEFAULT_EPOCHS
        # The usual tokens are left unset: of prepared pairs all that there are is taken then.
        if (encoder := data.get("encoder")) in list(NETWORKS) and NETWORKS[encoder].default_tokens != ("pieces",):
            data.setdefault("tokens", list(NETWORKS[encoder].default_tokens))
        if (objective := data.get("objective")) in list(OBJECTIVES):
            data.setdefault("negative_choice", OBJECTIVES[objective].usual_choice)
        return data

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if not self.bitext and self.prepared is None:
            raise ValueError("nothing to train on: name the bitext with --bitext, or prepared pairs with --prepared")
        if self.bitext and self.prepared is not None:
            raise ValueError("give either bitext or prepared")
        if self.prepared is None:
            self.network()
        elif given := sorted(self.model_fields_set & set(DataConfig.fields()) - {"bitext", "tokens", "seed"}):
            raise ValueError(f"{', '.join(given)}: decided when {self.prepared} was prepared: leave it out here")
        self.build_objective()
        if self.scramble and not NETWORKS[self.encoder].ordered:
            ordered = " or ".join(name for name in NETWORKS if NETWORKS[name].ordered)
            raise ValueError(f"scramble changes only the order, which encoder: {ordered} alone looks at")
        return self

    def chosen_tokens(self) -> list[str] | None:
        """The tokens asked for; None for all that a prepared folder has."""
        return list(self.tokens) if self.prepared is None or "tokens" in self.model_fields_set else None

    def network(self, tokens: list[str] | None = None) -> NetworkSettings:
        """The architecture, on `tokens` (by default those of the configuration)."""
        given = {key: getattr(self, key) for key in NetworkSettings.fields() if key not in ("kind", "tokens")}
        return NetworkSettings.model_validate({**given, "kind": self.encoder, "tokens": tokens or self.tokens})

    def build_objective(self) -> Objective:
        """The objective, with its settings among these."""
        kind = OBJECTIVES[self.objective]
        given = {key: getattr(self, key) for key in kind.fields()}
        return kind.model_validate({key: value for key, value in given.items() if value is not None})

    def learnt(self) -> dict[str, object]:
        """The settings that decide the model, as plain data; those of the data are named by its
        identity."""
        fields = self.fields()
        data = self.model_dump(mode="json", exclude={*RUNTIME_KEYS, *DataConfig.fields()} - {"seed"})
        others = [key for key in data if key not in _ALWAYS_KEPT and data[key] != fields[key].default]
        return {key: data[key] for key in (*_ALWAYS_KEPT, *others)}
