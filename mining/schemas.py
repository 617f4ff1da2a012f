"""What the tables of mined pairs, candidates, dropped rows and scores hold, and why a row is not
used."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pyarrow as pa

#: The two sides of what is aligned, in this order.
SIDES = ("source", "target")
#: Scores and cosines are written and compared with this many decimals.
DECIMALS = 6
#: Characters of a text that is not used that are kept, enough to recognise it in the ledger.
PREVIEW_CHARS = 200


class Reason(str, Enum):
    """Why a row or a pair is not used, in the order in which reasons are looked for: the first that
    holds counts."""

    # Readers: what is wrong with a row.
    BLANK = "blank"
    TOO_LONG = "too_long"
    INVALID_UTF8 = "invalid_utf8"
    BAD_ROW = "bad_row"
    # Preparing the pairs of a training; next come the names of the filters (`mining.filters`).
    DOMAIN = "domain"
    # Preparing and mining.
    DUPLICATE = "duplicate"
    DOMAIN_CAP = "domain_cap"
    NO_UNITS = "no_units"
    TOO_FEW_PIECES = "too_few_pieces"
    # Mining and scoring.
    NO_PIECES = "no_pieces"
    UNMATCHED = "unmatched"
    BELOW_THRESHOLD = "below_threshold"

    def __str__(self) -> str:
        return self.value

    @property
    def words(self) -> str:
        """The reason as it stands in a message: ``too long``, ``invalid UTF-8``."""
        return self.replace("_utf8", " UTF-8").replace("_", " ")


#: Aligned pairs (``pairs.tsv``, ``pairs.parquet``).
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
#: Rows that are not used (``dropped.parquet``); `reason` is a `Reason`.
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
#: Scores of given pairs, one row for each row of the input. Numbers are null where there is a
#: reason; all but the cosine where there are no pools.
SCORES_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("cosine", pa.float64()),
        ("source_mean", pa.float64()),
        ("target_mean", pa.float64()),
        ("margin", pa.float64()),
        ("reason", pa.string()),
    ]
)

#: Where a candidate was found from: its source row, its target row, or both.
FORWARD, BACKWARD, BOTH = 1, 2, 3
#: The same in words, by number.
DIRECTIONS = ("", "forward", "backward", "both")
#: A candidate in memory and in the runs on disk: row numbers of both ends, the rank (from 1) in the
#: list that it was found in, and the direction.
CANDIDATE = np.dtype(
    [
        ("source", "<i8"),
        ("target", "<i8"),
        ("score", "<f8"),
        ("cosine", "<f4"),
        ("rank", "<i4"),
        ("direction", "u1"),
    ]
)
