"""What the tables of mined pairs, candidates and unused rows hold, and why a row is not used."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa


class Reason(StrEnum):
    """Why a row or a pair is not used, in the order in which reasons are looked for: the first that
    holds counts."""

    # Readers: what is wrong with a row.
    BLANK = "blank"
    TOO_LONG = "too_long"
    INVALID_UTF8 = "invalid_utf8"
    BAD_ROW = "bad_row"
    # Preparing the pairs of a training.
    DOMAIN = "domain"
    TOO_FEW_TOKENS = "too_few_tokens"
    TOO_MANY_TOKENS = "too_many_tokens"
    LENGTH_RATIO = "length_ratio"
    EQUAL_SIDES = "equal_sides"
    TRIGRAM_OVERLAP = "trigram_overlap"
    SIMILARITY = "similarity"
    LANGUAGE = "language"
    # Preparing and mining.
    DUPLICATE = "duplicate"
    DOMAIN_CAP = "domain_cap"
    NO_UNITS = "no_units"
    TOO_FEW_PIECES = "too_few_pieces"
    # Mining and scoring.
    NO_PIECES = "no_pieces"
    UNMATCHED = "unmatched"
    BELOW_THRESHOLD = "below_threshold"

    @property
    def words(self) -> str:
        """The reason as it stands in a message: ``too long``, ``invalid UTF-8``."""
        return self.replace("_utf8", " UTF-8").replace("_", " ")


PAIRS_SCHEMA = pa.schema(
    [
        ("score", pa.float64()),
        ("cosine", pa.float64()),
        ("source_mean", pa.float64()),
        ("target_mean", pa.float64()),
        ("rank", pa.int32()),
        ("direction", pa.string()),
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("source_text", pa.string()),
        ("target_text", pa.string()),
        ("source_occurrences", pa.int64()),
        ("target_occurrences", pa.int64()),
    ]
)
#: What a row that is not used is recorded as (``dropped.parquet``); `reason` is a `Reason`.
DROPPED_SCHEMA = pa.schema(
    [
        ("side", pa.string()),
        ("id", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("kept_id", pa.string()),
        ("text", pa.string()),
    ]
)
#: All k candidates of both directions (``candidates.parquet``); rank 0 means: not found from that
#: side.
CANDIDATES_SCHEMA = pa.schema(
    [
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("score", pa.float64()),
        ("cosine", pa.float64()),
        ("forward_rank", pa.int32()),
        ("backward_rank", pa.int32()),
    ]
)
