"""What decides the training data: the bitexts, the filters, the domains and the tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from mining.config.base import Settings
from mining.config.corpus import BitextSpec

TokenKind = Literal["pieces", "words", "trigrams", "ngrams"]

PARAPHRASES = {
    "min_tokens": 5,
    "max_tokens": 40,
    "min_similarity": 0.4,
    "max_similarity": 1.0,
    "max_trigram_overlap": 0.7,
}
"""What ``paraphrases: true`` stands for, where not set otherwise (Wieting et al. 2022, section 4,
on ParaNMT)."""


class FilterSettings(Settings):
    """Which pairs are kept. A filter that is None or false is off.

    Lengths are in tokens: words between white space, and for scripts written without spaces (Han,
    kana, Thai, Lao, Khmer, Burmese) half a token for each character.
    """

    min_tokens: int = Field(default=1, ge=1)
    """fewest tokens of either side; 1 keeps dictionary entries, the published trainings took 3"""
    max_tokens: int | None = Field(default=100, ge=1)
    """most tokens of either side"""
    max_ratio: float | None = Field(default=None, ge=1)
    """most tokens of the longer side for one token of the shorter"""
    language_id: bool = False
    """drop a pair of which a side is recognised as another language than ``languages`` of its
    bitext says; slow"""
    duplicates: bool = True
    """drop a pair whose two sides (but for case, NFKC and white space) came together before"""
    equal_sides: bool = True
    """drop a pair whose sides differ in nothing but case, punctuation and white space"""
    paraphrases: bool = False
    """start from the values of PARAPHRASES"""
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    """least similarity of the sides: the column ``score`` of the bitext, or their cosine by
    `similarity_model`"""
    max_similarity: float | None = Field(default=None, ge=-1, le=1)
    similarity_model: str | None = None
    """model folder"""
    max_trigram_overlap: float | None = Field(default=None, ge=0, le=1)
    """largest share of word trigrams in common"""

    @model_validator(mode="before")
    @classmethod
    def _paraphrases(cls, data: Any) -> Any:
        return {**PARAPHRASES, **data} if isinstance(data, dict) and data.get("paraphrases") is True else data

    @model_validator(mode="after")
    def _ordered(self) -> FilterSettings:
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}")
        if None not in (low := self.min_similarity, high := self.max_similarity) and low > high:  # type: ignore[operator]
            raise ValueError(f"min_similarity {low} is above max_similarity {high}")
        return self

    @property
    def by_similarity(self) -> bool:
        """Whether pairs are judged by the similarity of their sides."""
        return self.min_similarity is not None or self.max_similarity is not None


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


class DataConfig(Settings):
    """Everything that decides the prepared pairs.

    ``bitext`` is a path, a BitextSpec, or a list of BitextSpecs (a list of paths is one bitext).
    """

    renamed = MappingProxyType({"units": "tokens"})

    bitext: list[BitextSpec] = Field(min_length=1)
    filters: FilterSettings = FilterSettings()
    domains: list[DomainRule] = Field(default_factory=list)

    tokens: list[TokenKind] = Field(default=["pieces"], min_length=1)
    vocabulary: int = Field(default=20_000, ge=8)
    """sentencepiece pieces, shared by all languages; a small bitext may give fewer"""
    types: int = Field(default=200_000, ge=1)
    """most words, character trigrams or n-grams of a vocabulary"""
    vocabulary_sentences: int = Field(default=500_000, ge=2)
    """sentences (of both sides together) that the vocabularies are learnt from, drawn at random"""
    vocabulary_from: str | None = None
    """model folder or prepared folder whose vocabularies are taken instead of learning any"""
    character_coverage: float = Field(default=0.9999, gt=0, le=1)
    lowercase: bool = True
    """fold case (and NFKC) inside sentencepiece; else NFKC only"""
    min_pieces: int = Field(default=1, ge=1)
    """fewest ids of either side in the first of the tokens"""
    max_pieces: int = Field(default=100, ge=1)
    """pieces or words after which a sentence is cut for training (never for encoding); n-grams are
    kept whole"""
    seed: int = Field(default=1, ge=0, lt=1 << 62)

    @field_validator("bitext", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        paths = isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
        return value if isinstance(value, list) and not paths else [value]

    @field_validator("tokens", mode="before")
    @classmethod
    def _one_kind(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fitting(self) -> DataConfig:
        if len(set(self.tokens)) != len(self.tokens):
            raise ValueError("tokens: name each kind once")
        if self.min_pieces > self.max_pieces:
            raise ValueError(f"min_pieces {self.min_pieces} is above max_pieces {self.max_pieces}")
        filters = self.filters
        for spec in self.bitext:
            if filters.language_id and spec.languages is None:
                raise ValueError(f"{spec.paths[0]}: the filter language_id needs languages: [CODE, CODE] of the bitext")
            if filters.by_similarity and spec.score is None and filters.similarity_model is None:
                raise ValueError(
                    f"{spec.paths[0]}: the filter by similarity needs score: COLUMN of the bitext, or "
                    "similarity_model: FOLDER; null for min_similarity and max_similarity turns it off"
                )
        return self

    def deciding(self) -> dict[str, Any]:
        """The settings that decide the prepared pairs, as plain data without the paths."""
        data = self.model_dump(mode="json", include=set(DataConfig.model_fields))
        for spec in data["bitext"]:
            spec.pop("path")
        data.pop("vocabulary_from")
        data["filters"].pop("similarity_model")
        return data


class PrepareConfig(DataConfig):
    """Settings of ``bitext prepare``: the data, and where and how they are prepared."""

    output: str
    """folder to write"""
    threads: int = Field(default=0, ge=0)
    """0: all cores; the result is the same"""
    overwrite: bool = False
    """replace pairs that were prepared from other settings or input"""
