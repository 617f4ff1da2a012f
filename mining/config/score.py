"""What ``bitext score`` is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator

from mining.config.base import Flag, Flags
from mining.config.corpus import BitextSpec, CorpusSpec
from mining.config.encode import EncoderSettings, SideSettings
from mining.config.mine import MARGIN, Margin
from mining.config.search import K, Neighbours


class ScoreConfig(SideSettings, EncoderSettings):
    """Everything `bitext score` needs; texts longer than ``pairs.max_chars`` are kept but not
    scored."""

    pairs: Annotated[BitextSpec, Flags(path="PAIRS", domain="", score="", languages="", panel="Options")]
    output: Annotated[str, Flag("--output -o")]
    """File to write: .tsv, .jsonl or .parquet."""
    source_pool: Annotated[
        CorpusSpec | None,
        Flags(
            path="--source-pool",
            text="--source-pool-text",
            format="--pool-format",
            columns="--pool-columns",
            others=False,
            panel="Margin against pools",
        ),
    ] = None
    """Sentences of the source side among which neighbours are sought: a text corpus of any format,
    or vectors written by `bitext encode`."""
    target_pool: Annotated[
        CorpusSpec | None,
        Flags(
            path="--target-pool",
            text="--target-pool-text",
            format="--pool-format",
            columns="--pool-columns",
            others=False,
        ),
    ] = None
    """Sentences of the target side, likewise."""
    k: Neighbours = K
    """Nearest neighbours a side that the mean is taken of."""
    margin: Margin = MARGIN
    """How the cosine is set against the means of the neighbours."""

    @model_validator(mode="after")
    def _both_pools(self) -> ScoreConfig:
        if (self.source_pool is None) != (self.target_pool is None):
            missing = "source_pool" if self.source_pool is None else "target_pool"
            raise ValueError(f"the margin needs pools of both sides: give {missing} too, or none for the cosine alone")
        return self
