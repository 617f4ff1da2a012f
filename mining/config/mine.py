"""Configuration of a mining run: what ``bitext mine --config FILE`` reads and
``config.resolved.yaml`` holds."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from mining.config.base import Settings
from mining.corpus.spec import CorpusSpec
from mining.device_names import check_devices, several_devices
from mining.margin import Margin
from mining.matching import Strategy

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


Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


class ShardSettings(Settings):
    """How large a shard may grow; whatever limit is reached first ends it.

    The texts of a shard stand in one Arrow array of strings, which ends at 2 GiB.
    """

    rows: int = Field(default=250_000, gt=0)
    bytes: Annotated[Size, Field(le=1 << 30)] = 256_000_000


class SearchSettings(Settings):
    """Nearest-neighbour search: exact by tiles, by clusters, or through one FAISS index a shard.

    `auto` goes by rows, dimensions and device (`mining.search.planner`). `clusters` None goes by
    rows; each row is in its `nearest` ones. A FAISS index proposes `rescore` more than k.
    """

    k: int = Field(default=4, gt=0, le=2048)
    method: Literal["auto", "exact", "clusters", "faiss"] = "auto"
    clusters: int | None = Field(default=None, gt=0)
    nearest: int = Field(default=10, gt=0, le=256)
    backend: Literal["torch", "faiss"] = "torch"
    device: str = "cpu"
    source_tile: int = Field(default=0, ge=0)
    target_tile: int = Field(default=0, ge=0)
    index: str = "IVF256,Flat"
    parameters: str | None = None
    rescore: int = Field(default=12, ge=0, le=4096)
    training_rows: int = Field(default=100_000, gt=0)

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        return check_devices(value)

    @model_validator(mode="after")
    def _faiss_has_one_device(self) -> SearchSettings:
        if self.method == "faiss" and self.device != "cpu":
            raise ValueError(
                f"method: faiss searches on the CPU, and device is {self.device}: set search.device: cpu, and "
                "encode.device where only the encoder is to use the GPU; or take method: exact, which uses it"
            )
        if self.backend == "faiss" and several_devices(self.device):
            raise ValueError(
                f"backend: faiss uses one device, and device is {self.device}: name one, for example cuda:0"
            )
        return self

    @property
    def index_parameters(self) -> str:
        """The FAISS search parameters; without any given, an inverted file probes eight of its
        lists."""
        return self.parameters if self.parameters is not None else "nprobe=8" if "IVF" in self.index else ""


class EncodeSettings(Settings):
    """How shards are encoded.

    `dim` keeps the first dimensions only, `dtype` is that of the model's tables in memory, and the
    languages are those of the sides, for a model whose languages have parameters of their own.
    """

    device: str = "cpu"
    dim: int | None = Field(default=None, ge=1)
    dtype: Literal["float32", "float16", "int8"] = "float32"
    source_language: str | None = None
    target_language: str | None = None

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
    """Where the stages run. `options` are Beam pipeline options, passed as they are
    (``{"flink_master": "host:8081"}``)."""

    name: str = "FnApiRunner"
    workers: int = Field(default=1, gt=0)
    threads: int = Field(default=0, ge=0)
    dask_address: str | None = None
    options: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)
    accelerator: str | None = None


class MineConfig(Settings):
    """Everything a mining run needs; without a `model` the one that ships with the package is
    used."""

    source: CorpusSpec
    target: CorpusSpec
    model: str | None = None
    output: str
    gold: str | None = None
    shard: ShardSettings = ShardSettings()
    encode: EncodeSettings = EncodeSettings()
    search: SearchSettings = SearchSettings()
    margin: Margin = "ratio"
    strategy: Strategy = "max"
    threshold: float | Literal["auto", "tune", "none"] = "auto"
    candidates: bool = False
    runner: RunnerSettings = RunnerSettings()

    @field_validator("threshold", mode="before")
    @classmethod
    def _threshold(cls, value: object) -> object:
        if value is None:
            return "none"
        if isinstance(value, str) and value in {"auto", "tune", "none"}:
            return value
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"'{value}' is neither a number nor one of tune, none, auto")
        return number

    @model_validator(mode="after")
    def _tuning_needs_gold(self) -> MineConfig:
        if self.threshold == "tune" and self.gold is None:
            raise ValueError("threshold: tune needs gold: FILE to tune on")
        return self
