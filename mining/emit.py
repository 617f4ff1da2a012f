"""Aligned pairs, candidates and unused rows as tables of the fixed schemas of `mining.pairs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.margin import DECIMALS
from mining.matching import DIRECTIONS
from mining.schemas import CANDIDATES_SCHEMA, PAIRS_SCHEMA
from mining.search.neighbours import Neighbours
from mining.text_arrays import table_parts

#: Entries of lists that `reverse_ranks` looks at together: 9 bytes each. One row of 2,048
#: neighbours has as many.
_LIST_ENTRIES = 1 << 22


class Rows(NamedTuple):
    """What is known of n rows of a side: `ids` and `texts` Arrow arrays of type ``large_string``,
    `occurrences` (n,) int64."""

    ids: pa.Array
    texts: pa.Array
    occurrences: NDArray[np.int64]


def _rounded(values: NDArray[np.floating]) -> pa.Array:
    return pa.array(np.round(values.astype(np.float64), DECIMALS) + 0.0, pa.float64())


def pairs_table(
    pairs: NDArray[np.void],
    source: Rows,
    target: Rows,
    source_means: NDArray[np.float64],
    target_means: NDArray[np.float64],
) -> pa.Table:
    """Matched pairs (n `CANDIDATE` rows) and what belongs to their two ends, each n long and in the
    same order.

    The columns are of several chunks where one array of strings would not hold their texts.
    """
    names = np.array(["", *(DIRECTIONS[code] for code in sorted(DIRECTIONS))], dtype=object)
    columns = {
        "score": _rounded(pairs["score"]),
        "cosine": _rounded(pairs["cosine"]),
        "source_mean": _rounded(source_means),
        "target_mean": _rounded(target_means),
        "rank": pa.array(pairs["rank"], pa.int32()),
        "direction": pa.array(names[pairs["direction"]], pa.string()),
        "source_id": source.ids,
        "target_id": target.ids,
        "source_text": source.texts,
        "target_text": target.texts,
        "source_occurrences": pa.array(source.occurrences, pa.int64()),
        "target_occurrences": pa.array(target.occurrences, pa.int64()),
    }
    return pa.concat_tables([part.cast(PAIRS_SCHEMA) for part in table_parts(pa.table(columns))])


class ForwardCandidates(NamedTuple):
    """Neighbour lists of a block of rows of the querying side, with what is needed to name and rank
    the pairs.

    `rows` (n,) row numbers, `lists` (n, k), `scores` (n, k) float64; `reverse` (n, k) int32 is the
    rank of the row in the neighbour's own list, 0 where it is not in there.
    """

    rows: NDArray[np.int64]
    lists: Neighbours
    scores: NDArray[np.float64]
    reverse: NDArray[np.int32]


def reverse_ranks(
    rows: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    lists_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
) -> NDArray[np.int32]:
    """Rank of ``rows[i]`` (n,) in the list of each of its `neighbours` (n, k): (n, k) int32, 0
    where it is not there.

    `lists_of` gives the lists (m, k, k') int64 of neighbours (m, k). It is asked for some rows at a
    time, so that what it gives is bounded however long the lists are.
    """
    n, k = neighbours.shape
    ranks = np.empty((n, k), np.int32)
    step = max(1, _LIST_ENTRIES // max(1, k * k))
    for start in range(0, n, step):
        part = slice(start, start + step)
        same = lists_of(neighbours[part]) == rows[part, None, None]
        ranks[part] = np.where(same.any(axis=2), same.argmax(axis=2) + 1, 0)
    return ranks


def candidates_table(block: ForwardCandidates, ids: pa.Array, their_ids: pa.Array, *, forward: bool) -> pa.Table:
    """Candidates of one direction. From the target side only those are listed that no source row
    found itself.

    `ids` (n) are those of the rows, `their_ids` (n * k) those of the neighbours, row by row (""
    where there is none).
    """
    n, k = block.lists.ids.shape
    keep = (block.lists.ids >= 0).ravel()
    if not forward:
        keep &= (block.reverse == 0).ravel()
    own_rank = np.tile(np.arange(1, k + 1, dtype=np.int32), n)[keep]
    other_rank = block.reverse.ravel()[keep]
    own = ids.cast(pa.large_string()).take(pa.array(np.repeat(np.arange(n), k)[keep]))
    other = their_ids.cast(pa.large_string()).filter(pa.array(keep))
    ends = (own, other) if forward else (other, own)
    ranks = (own_rank, other_rank) if forward else (other_rank, own_rank)
    columns = [*ends, _rounded(block.scores.ravel()[keep]), _rounded(block.lists.cosines.ravel()[keep]), *ranks]
    arrays = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns]
    table = pa.table(arrays, names=CANDIDATES_SCHEMA.names)
    return pa.concat_tables([part.cast(CANDIDATES_SCHEMA) for part in table_parts(table)])
