"""What decides the training data: the bitexts, the filters, the domains and the tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from mining.config.base import Flag, Flags, Settings, one_of
from mining.config.corpus import BitextSpec
from mining.config.registered import RegisteredSettings
from mining.encoder.tokenizers import TOKENIZERS
from mining.filters import FilterSettings

_ALWAYS_KEPT = (
    "bitext",
    "filters",
    "domains",
    "tokens",
    "vocabulary",
    "types",
    "vocabulary_sentences",
    "character_coverage",
    "lowercase",
    "min_pieces",
    "max_pieces",
    "seed",
)
"""Keys of ``prepared.json``, in their order; others of tokenizers follow where they are set."""


class DomainRule(Settings):
    """What becomes of the domains whose name fits ``match``; the first rule that fits a domain is
    the one that counts.

    ``match`` is a pattern with ``*``, ``?`` and ``[...]``, compared with the domain (``ui.*``) and,
    where the bitext has ``languages``, also with languages and domain (``en-de/ui.*``).
    """

    match: str = Field(min_length=1)
    cap: int | None = Field(default=None, ge=1)
    """at most so many pairs, drawn at random among those that pass the filters"""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """how often a pair of the domain is drawn for training, relative to one of weight 1"""
    drop: bool = False


class DataConfig(RegisteredSettings):
    """Everything that decides the prepared pairs; it reads the settings of tokenizers too.

    ``bitext`` is a path, a BitextSpec, or a list of BitextSpecs (a list of paths is one bitext).
    """

    renamed = MappingProxyType({"units": "tokens"})

    bitext: Annotated[list[BitextSpec], Flags(path="--bitext", panel="Bitext")] = Field(min_length=1)
    """Sentence pairs."""
    filters: Annotated[
        FilterSettings,
        Flags(
            duplicates="--drop-duplicates/--keep-duplicates", equal_sides="--drop-equal/--keep-equal", panel="Filters"
        ),
    ] = FilterSettings()
    domains: list[DomainRule] = Field(default_factory=list)
    """Rules for domains; the first that fits a domain counts."""

    tokens: Annotated[list[Annotated[str, one_of(TOKENIZERS)]], Flag(panel="Tokens")] = Field(
        default=["pieces"], min_length=1
    )
    """What sentences are cut into."""
    vocabulary_sentences: int = Field(default=500_000, ge=2)
    """Sentences (of both sides together) that the vocabularies are learnt from, drawn at random."""
    vocabulary_from: str | None = None
    """Model folder or prepared folder whose vocabularies are taken instead of learning any."""
    min_pieces: int = Field(default=1, ge=1)
    """Fewest tokens of either side, in the first of the kinds of tokens."""
    max_pieces: int = Field(default=100, ge=1)
    """Pieces or words after which a sentence is cut for training (never for encoding); n-grams are
    kept whole."""
    seed: Annotated[int, Flag(panel="Options")] = Field(default=1, ge=0, lt=1 << 62)
    """Seed of all random choices."""

    @classmethod
    def parts(cls) -> dict[str, list[type[Settings]]]:
        """What tokenizers are learnt with."""
        found = [TOKENIZERS[name].learning for name in TOKENIZERS]
        return {"tokens": [learning for learning in found if learning is not None]}

    @field_validator("bitext", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        paths = isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
        return value if isinstance(value, list) and not paths else [value]

    @field_validator("tokens", mode="before")
    @classmethod
    def _one_kind(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fitting(self) -> DataConfig:
        if len(set(self.tokens)) != len(self.tokens):
            raise ValueError("tokens: name each kind once")
        loaded = [kind for kind in self.tokens if TOKENIZERS[kind].learning is None]
        if loaded and self.vocabulary_from is None:
            raise ValueError(f"tokens: {loaded[0]} cannot be learnt: name a model that has them in vocabulary_from")
        if self.min_pieces > self.max_pieces:
            raise ValueError(f"min_pieces {self.min_pieces} is above max_pieces {self.max_pieces}")
        for spec in self.bitext:
            for one in self.filters.active():
                try:
                    one.check(spec)
                except ValueError as error:
                    raise ValueError(f"{spec.paths[0]}: {error}") from None
        return self

    def deciding(self) -> dict[str, object]:
        """The settings that decide the prepared pairs, as plain data without the paths: as
        ``prepared.json`` keeps them, under the names of its format."""
        fields = DataConfig.fields()
        data = self.model_dump(mode="json", include=set(fields), exclude={"vocabulary_from"})
        for spec in data["bitext"]:
            spec.pop("path")
        data["filters"] = self.filters.deciding()
        others = [key for key in data if key not in _ALWAYS_KEPT and data[key] != fields[key].default]
        return {"units" if key == "tokens" else key: data[key] for key in (*_ALWAYS_KEPT, *others)}


class PrepareConfig(DataConfig):
    """Settings of ``bitext prepare``: the data, and where and how they are prepared."""

    output: Annotated[str, Flag("--output -o", panel="Options")]
    """Folder to write."""
    threads: int = Field(default=0, ge=0)
    """0: all cores; the result is the same."""
    overwrite: bool = False
    """Replace pairs that were prepared from other settings or input."""
