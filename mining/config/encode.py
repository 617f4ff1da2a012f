"""What ``bitext encode`` is told, and what the settings of all commands say of a model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mining.config.base import Flag, Flags, Settings
from mining.config.corpus import CorpusSpec

TableType = Literal["float32", "float16", "int8"]

WORD_MEMORY = 256
"""MiB that an encoder takes for the words it has met, where nothing else is set."""


class TableSettings(Settings):
    """How the tables of a model are loaded."""

    device: Annotated[str, Flag(panel="Model")] = "cpu"
    """cpu or cuda."""
    dim: int | None = Field(default=None, ge=1)
    """Keep only so many of the first dimensions."""
    dtype: TableType = "float32"
    """Of the model's tables in memory."""


class SideSettings(TableSettings):
    """How the tables of a model are loaded for two languages."""

    source_language: str | None = None
    """Language of the source, for a model whose languages have parameters of their own."""
    target_language: str | None = None
    """Language of the target, likewise."""


class ModelSettings(Settings):
    """The model of a command, and the threads it encodes with."""

    model: Annotated[str | None, Flag("--model -m", panel="Model")] = None
    """Model folder, as `bitext train` writes it; without one, the bundled model."""
    threads: int = Field(default=0, ge=0)
    """0: all cores; the result is the same."""


class EncoderSettings(TableSettings, ModelSettings):
    """Which model encodes, and how its tables are loaded."""


class EncodeConfig(EncoderSettings):
    """What to encode, with which model, and where to write the vectors."""

    input: Annotated[CorpusSpec, Flags(path="INPUT", panel="Options")]
    out: Annotated[str, Flag("--out -o")]
    """File to write: .npy (with two companions) or .parquet."""
    dtype: Literal["float32", "float16"] = "float32"
    """Of the vectors in the file."""
    table_dtype: Annotated[TableType, Flag(panel="Model")] = "float32"
    """Of the model's tables in memory."""
    language: str | None = None
    """Language of the texts, for a model whose languages have parameters of their own."""
    word_memory: int = Field(default=WORD_MEMORY, ge=0)
    """MiB for the words that were met before; less is slower, the vectors stay the same."""
