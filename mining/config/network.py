"""How a sentence vector is made from tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from mining.config.base import Settings, one_of
from mining.encoder.tokenizers import NAMES_IN_FOLDERS, TOKENIZERS

TokenKind: TypeAlias = Annotated[str, one_of(TOKENIZERS, *NAMES_IN_FOLDERS.values())]

MAX_UNITS = 4


class NetworkSettings(Settings):
    """The architecture of an encoder.

    Sources: averaging of pieces (SP), words (WORD) and character trigrams (TRIGRAM), and the BLSTM:
    Wieting et al. 2019, section 2; CHARAGRAM: Wieting et al. 2016, in the thesis of 2020 chapter 3;
    the projection: PARAGRAM-PHRASE, same chapter.
    """

    renamed = MappingProxyType({"units": "tokens"})

    kind: Literal["average", "charagram", "lstm"] = "average"
    """average: mean of the tokens' vectors; charagram: sum over character n-grams and an
    activation; lstm: mean of the states of a bidirectional LSTM"""
    tokens: list[TokenKind] = Field(default_factory=lambda: ["pieces"])
    """what a sentence is cut into; several are averaged apart, each with its own table, and learnt
    jointly"""
    combine: Literal["sum", "concatenate"] = "sum"
    """of the averages of several tokens"""
    dim: int = Field(default=300, ge=1)
    """length of a token's vector"""
    projection: int | None = Field(default=None, ge=1)
    """length of the sentence vector after a learnt linear map of the average; None: no map"""
    activation: Literal["tanh", "linear"] = "tanh"
    """of ``charagram``"""
    hidden: int = Field(default=150, ge=1)
    """states of each direction of ``lstm``; the sentence vector is twice as long"""
    shared: bool = True
    """False: each language has parameters of its own"""

    @field_validator("tokens")
    @classmethod
    def _distinct(cls, value: list[TokenKind]) -> list[TokenKind]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one kind of token, and each only once")
        return [NAMES_IN_FOLDERS.get(name, name) for name in value]

    @model_validator(mode="after")
    def _consistent(self) -> NetworkSettings:
        if self.kind == "charagram" and self.tokens != ["ngrams"]:
            raise ValueError("kind: charagram works on tokens: [ngrams]")
        if self.kind == "lstm" and self.tokens not in (["pieces"], ["words"], ["released"]):
            raise ValueError("kind: lstm works on tokens: [pieces] or tokens: [words]")
        if self.projection is not None and self.kind != "average":
            raise ValueError("a projection belongs to kind: average")
        return self
