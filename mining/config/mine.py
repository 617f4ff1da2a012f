"""Configuration of a mining run: what ``bitext mine --config FILE`` reads and
``config.resolved.yaml`` holds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from mining.config.base import Flag, Flags, Settings, one_of
from mining.config.corpus import CorpusSpec
from mining.config.encode import SideSettings
from mining.config.search import SearchSettings
from mining.devices import check_devices, first_device, several_devices
from mining.margins import MARGINS
from mining.search.methods import SHARD_ROWS

Margin = Annotated[str, one_of(MARGINS)]
Strategy = Literal["forward", "backward", "intersection", "max"]
MARGIN = "ratio"
STRATEGY: Strategy = "max"
"""Margin and strategy where nothing else is set."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_size(value: object) -> object:
    """``"256MB"`` or ``"1 GiB"`` as a number of bytes; anything else is left for the model to
    judge."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", value.lower())
        if not found:
            raise ValueError(f"'{value}' is not a size; write it like 256MB or 1GiB")
        return int(float(found[1]) * _UNITS[found[2]])
    return value


def parse_threshold(*words: str) -> Callable[[object], object]:
    """A function that reads a threshold: a finite number or one of `words`; None is ``none``."""

    def parse(value: object) -> object:
        if value is None:
            return "none"
        if isinstance(value, str) and value in words:
            return value
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"'{value}' is neither a number nor one of {', '.join(words)}")
        return number

    return parse


Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


class ShardSettings(Settings):
    """How large a shard may grow; whatever limit is reached first ends it.

    The texts of a shard stand in one Arrow array of strings, which ends at 2 GiB.
    """

    rows: Annotated[int, Flag("--shard-rows")] = Field(default=SHARD_ROWS, gt=0)
    """Most rows of a shard."""
    bytes: Annotated[Size, Flag("--shard-bytes"), Field(le=1 << 30)] = 256_000_000
    """Most bytes of the texts of a shard, for example 256MB."""


class EncodeSettings(SideSettings):
    """How shards are encoded."""

    device: Annotated[str, Flag(read=first_device)] = "cpu"
    """cpu or cuda; of several (cuda:0,cuda:1 or cuda:all) the first encodes, and all search."""

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if several_devices(value):
            raise ValueError(f"'{value}': one device encodes, for example cuda:0; search.device may name several")
        return check_devices(value)

    def options(self, side: str) -> dict[str, Any]:
        """What `load_encoder` is asked for the side ``source`` or ``target``, beside the device."""
        language = self.source_language if side == "source" else self.target_language
        return {"dim": self.dim, "dtype": self.dtype, "language": language}


class RunnerSettings(Settings):
    """Where the stages run."""

    name: Annotated[str, Flag("--runner")] = "FnApiRunner"
    """Beam runner, for example FnApiRunner, DaskRunner or FlinkRunner."""
    workers: int = Field(default=1, gt=0)
    """Steps at a time in this process."""
    threads: int = Field(default=0, ge=0)
    """Threads of a step; 0: all cores / workers."""
    dask_address: str | None = None
    """Dask scheduler, with the DaskRunner."""
    options: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)
    """Beam pipeline options, passed as they are (``{"flink_master": "host:8081"}``)."""
    accelerator: str | None = None
    """Beam resource hint of the steps that use a GPU."""


class MineConfig(Settings):
    """Everything a mining run needs."""

    source: Annotated[CorpusSpec, Flags(path="--source", text="--source-text", panel="Sentences")]
    """Source sentences."""
    target: Annotated[CorpusSpec, Flags(path="--target", text="--target-text")]
    """Target sentences."""
    model: Annotated[str | None, Flag("--model -m", panel="Options")] = None
    """Model folder, as `bitext train` writes it; without one, the bundled model."""
    output: Annotated[str, Flag("--output -o")]
    """Run folder; the same command goes on where it was stopped."""
    gold: str | None = None
    """Gold pairs (source id, tab, target id): tune the threshold on them, and evaluate."""
    shard: ShardSettings = ShardSettings()
    encode: EncodeSettings = EncodeSettings()
    search: SearchSettings = SearchSettings()
    margin: Annotated[Margin, Flag(panel="Pairs")] = MARGIN
    """How a cosine is set against the mean of the neighbours' cosines."""
    strategy: Strategy = STRATEGY
    """Which best neighbours become pairs."""
    threshold: Annotated[
        float | Literal["auto", "tune", "none"], BeforeValidator(parse_threshold("tune", "none", "auto"))
    ] = "auto"
    """Least score of a pair: a number, tune (best F1 on gold) or none; auto: tune with gold, else
    none."""
    candidates: bool = False
    """Keep all k candidates (kept anyway with gold)."""
    runner: RunnerSettings = RunnerSettings()

    @model_validator(mode="after")
    def _tuning_needs_gold(self) -> MineConfig:
        if self.threshold == "tune" and self.gold is None:
            raise ValueError("threshold: tune needs gold: FILE to tune on")
        return self


class DemoConfig(Settings):
    """What ``bitext demo`` is told."""

    output: Annotated[Path, Flag("--output -o")] = Path("demo-run")
    """Folder for the data and the runs."""
    model: Annotated[Path | None, Flag("--model -m")] = None
    """Model folder; without one, the bundled model."""
