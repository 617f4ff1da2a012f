"""What ``bitext plan`` is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from mining.config.base import Flag, Settings
from mining.config.corpus import CorpusSpec
from mining.config.mine import ShardSettings, Size
from mining.config.search import SearchSettings


def parse_rows(value: object) -> object:
    """``1000000``, ``1e6`` or ``1_000_000`` as a number."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value.replace("_", "").replace(",", ""))
    except ValueError:
        number = -1.0
    if not 1 <= number < 1e15:
        raise ValueError(f"{value}: give a number of rows from 1 to 1e15, for example 1e6")
    return int(number)


def _holds_something(size: int) -> int:
    if size < 1_000_000:
        raise ValueError(f"{size} bytes hold nothing; write it like 24GB")
    return size


Rows = Annotated[int, BeforeValidator(parse_rows)]
Room = Annotated[Size, AfterValidator(_holds_something)]


class PlanConfig(Settings):
    """The rows and the machine of a planned search; the file is that of ``bitext mine``."""

    source: Annotated[CorpusSpec | None, Flag("")] = None
    target: Annotated[CorpusSpec | None, Flag("")] = None
    source_rows: Rows | None = None
    """Sentences of the source, for example 1e6; without it those of the file are counted."""
    target_rows: Rows | None = None
    """Sentences of the target, likewise."""
    dim: int | None = Field(default=None, ge=1)
    """Dimensions of the vectors; without it those of the model."""
    model: Annotated[str | None, Flag("--model -m")] = None
    """Model folder, for its dimensions."""
    memory: Room | None = None
    """Memory at hand, for example 24GB."""
    disk: Room | None = None
    """Disk at hand, for example 100GB."""
    cores: int | None = Field(default=None, ge=1)
    """Cores of a machine; without it those of this one."""
    as_json: Annotated[bool, Flag("--json/--no-json")] = False
    """Print one JSON object: seconds and bytes."""
    shard: ShardSettings = ShardSettings()
    search: SearchSettings = SearchSettings()
