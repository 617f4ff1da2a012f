"""What ``bitext convert`` is told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mining.config.base import Flag, Settings
from mining.config.encode import TableType

Target = Literal["model", "prepared", "hdf5"]


class ConvertConfig(Settings):
    """What is converted, and to what; where a setting is None, it stays as it is."""

    source: Annotated[Path, Flag("SOURCE")]
    """P-SP model (file or folder), .h5 file, prepared folder or model folder."""
    output: Annotated[Path, Flag("--output -o")]
    """Folder to write; .h5 file for prepared pairs."""
    to: Target | None = None
    """What SOURCE has to become; an error where it becomes something else."""
    sentencepiece: Path | None = None
    """Sentencepiece model that came with the P-SP model or made the pieces."""
    vocabulary: Path | None = None
    """Lines piece<TAB>id of an .h5 file (the .vocab file beside it)."""
    lowercase: Annotated[bool | None, Flag("--lowercase/--keep-case")] = None
    """Fold texts to lower case, or keep their case; without it as the P-SP model says."""
    dtype: TableType | None = None
    """Of the tables of the model."""
    dim: int | None = Field(default=None, ge=1)
    """Keep only so many of the first dimensions."""
    languages: list[str] | None = None
    """Codes of the languages, kept with the model or the pairs."""
    overwrite: bool = False
    """Write into a folder that is not empty."""
