"""How a sentence vector is made from units."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from mining.settings import Settings

UnitKind = Literal["pieces", "words", "trigrams", "ngrams", "released"]

MAX_UNITS = 4


class NetworkSettings(Settings):
    """The architecture of an encoder.

    Sources: averaging of pieces (SP), words (WORD) and character trigrams (TRIGRAM), and the BLSTM: Wieting et al.
    2019, section 2; CHARAGRAM: Wieting et al. 2016, in the thesis of 2020 chapter 3; the projection: PARAGRAM-PHRASE,
    same chapter.
    """

    kind: Literal["average", "charagram", "lstm"] = "average"
    """average: mean of the units' vectors; charagram: sum over character n-grams and an activation; lstm: mean of the
    states of a bidirectional LSTM"""
    units: list[UnitKind] = Field(default_factory=lambda: ["pieces"])  # type: ignore[arg-type]
    """what a sentence is cut into; several are averaged apart, each with its own table, and learnt jointly"""
    combine: Literal["sum", "concatenate"] = "sum"
    """of the averages of several units"""
    dim: int = Field(default=300, ge=1)
    """length of a unit's vector"""
    projection: int | None = Field(default=None, ge=1)
    """length of the sentence vector after a learnt linear map of the average; None: no map"""
    activation: Literal["tanh", "linear"] = "tanh"
    """of ``charagram``"""
    hidden: int = Field(default=150, ge=1)
    """states of each direction of ``lstm``; the sentence vector is twice as long"""
    shared: bool = True
    """False: each language has parameters of its own"""

    @field_validator("units")
    @classmethod
    def _distinct(cls, value: list[UnitKind]) -> list[UnitKind]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one kind of unit, and each only once")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> NetworkSettings:
        if self.kind == "charagram" and self.units != ["ngrams"]:
            raise ValueError("kind: charagram works on units: [ngrams]")
        if self.kind == "lstm" and self.units not in (["pieces"], ["words"], ["released"]):
            raise ValueError("kind: lstm works on units: [pieces] or units: [words]")
        if self.projection is not None and self.kind != "average":
            raise ValueError("a projection belongs to kind: average")
        return self
