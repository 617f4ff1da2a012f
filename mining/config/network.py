"""How a sentence vector is made from tokens."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import Field, field_validator, model_validator

from mining.config.base import Settings, one_of
from mining.config.registered import RegisteredSettings
from mining.encoder.networks import NETWORKS
from mining.encoder.tokenizers import NAMES_IN_FOLDERS, TOKENIZERS

TokenKind: TypeAlias = Annotated[str, one_of(TOKENIZERS, *NAMES_IN_FOLDERS.values())]


class NetworkSettings(RegisteredSettings):
    """The architecture of an encoder; beside these keys, those of every kind of network."""

    renamed = MappingProxyType({"units": "tokens"})

    kind: Annotated[str, one_of(NETWORKS)] = "average"
    """How the vectors of the tokens become one vector."""
    tokens: list[TokenKind] = Field(default_factory=lambda: ["pieces"])
    """What a sentence is cut into; several have a table each, and are learnt jointly."""
    dim: int = Field(default=300, ge=1)
    """Length of a token's vector."""
    shared: bool = True
    """False: each language has parameters of its own."""

    @classmethod
    def parts(cls) -> dict[str, list[type[Settings]]]:
        """The settings of every kind of network."""
        return {"kind": [NETWORKS[kind].settings for kind in NETWORKS]}

    @field_validator("tokens")
    @classmethod
    def _distinct(cls, value: list[TokenKind]) -> list[TokenKind]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one kind of token, and each only once")
        return [NAMES_IN_FOLDERS.get(name, name) for name in value]

    @model_validator(mode="after")
    def _consistent(self) -> NetworkSettings:
        for kind in NETWORKS:
            self.part(NETWORKS[kind].settings).check(self)
        return self
