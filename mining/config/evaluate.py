"""What the commands of ``bitext evaluate`` are told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from mining.config.base import Flag, Flags, Settings
from mining.config.corpus import CorpusSpec, Policy
from mining.config.encode import EncoderSettings, SideSettings
from mining.config.mine import STRATEGY, Margin, Strategy, parse_threshold
from mining.config.search import K, Neighbours

MARGINS = ("ratio", "absolute")
"""Margins that are measured, where nothing else is set."""
FOLDS = 5
"""Folds of the gold pairs, where nothing else is set."""
GOLD = "Lines of source id, tab, target id; a third column is a domain."


class JsonSettings(Settings):
    """Where the metrics are written."""

    json_file: Annotated[str | None, Flag("--json")] = None
    """Write the metrics to this file as well."""


class IdCorpus(CorpusSpec):
    """A corpus of which only the ids matter, so that rows with faulty texts are no obstacle."""

    invalid_utf8: Policy = "skip"
    on_bad_row: Literal["error", "skip"] = "skip"


_SHARED = {"format": "--format", "columns": "--columns", "id": "--id", "text": "--text"}


class BuccConfig(JsonSettings):
    """Mined pairs and their gold."""

    pairs: Path
    """The run folder (all pairs it matched), or a file of pairs."""
    gold: Path = Field(description=GOLD)
    threshold: Annotated[float | Literal["tune", "none"], BeforeValidator(parse_threshold("tune", "none"))] = "tune"
    """A number, tune for the best F1, or none for all pairs."""
    dropped: Path | None = None
    """Drop ledger; without it the one beside the pairs."""
    candidates: Path | None = None
    """Candidates; without it those beside the pairs."""
    folds: int | None = Field(default=None, ge=2)
    """Cross-validate the threshold over so many folds."""
    test_pairs: Path | None = None
    """Pairs of a second split; same threshold."""
    test_gold: Path | None = None
    """Gold pairs of the second split."""
    source: Annotated[IdCorpus | None, Flags(path="--source", others=False, panel="Corpora", **_SHARED)] = None
    """Source corpus, which must hold the source ids of the gold."""
    target: Annotated[IdCorpus | None, Flags(path="--target", others=False, **_SHARED)] = None
    """Target corpus, which must hold the target ids of the gold."""


class MiningTaskConfig(SideSettings, EncoderSettings, JsonSettings):
    """A mining task with gold, and how it is mined in memory."""

    source: Annotated[CorpusSpec, Flags(path="--source", text="--source-text", panel="Options")]
    """Source sentences."""
    target: Annotated[CorpusSpec, Flags(path="--target", text="--target-text")]
    """Target sentences."""
    gold: str = Field(description=GOLD)
    margin: list[Margin] = Field(default=list(MARGINS), min_length=1)
    """Margins that are measured."""
    strategy: Strategy = STRATEGY
    """Which best neighbours become pairs."""
    k: Neighbours = K
    """Nearest neighbours a side."""
    folds: int = Field(default=FOLDS, ge=0)
    """Folds of the gold pairs; 0: none."""


class TatoebaConfig(SideSettings, EncoderSettings, JsonSettings):
    """Aligned sentences, and the model that is measured on them."""

    paths: Annotated[list[str], Flag("PATH", panel="Options")]
    """Folders, files named as above, or bitexts."""
    format: str | None = None
    """Format of the files; names play no part then."""
    columns: list[str] | None = None
    """Names of the columns of TSV files, in order."""
    source: str | None = None
    """Name of the source column or field; TMX: language."""
    target: str | None = None
    """Name of the target column or field; TMX: language."""
    invalid_utf8: Policy | None = None
    """What is done about invalid UTF-8; strict where not given."""


class StsConfig(EncoderSettings, JsonSettings):
    """Judged pairs of sentences, and the model that is measured on them."""

    paths: Annotated[list[str], Flag("PATH", panel="Options")]
    """Data sets, or folders of them."""
    language: str | None = None
    """Language of the sentences, for a model whose languages have parameters of their own."""
