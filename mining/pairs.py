"""Mined pairs and candidates as tables, and files of pairs read back.

`pairs_table` and `candidates_table` give the rows of a run their ids and texts, in the columns of
`mining.schemas`; `read_pairs_file` reads pairs from Parquet, TSV or JSON lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.corpus.lines import FaultyLine, numbered_lines, without_marks
from mining.errors import InputError, UsageError
from mining.io.json_file import parse_json
from mining.io.parquet import read_parquet, read_parquet_schema
from mining.schemas import CANDIDATES_SCHEMA, DECIMALS, DIRECTIONS, PAIRS_SCHEMA
from mining.search.topk import Neighbours
from mining.text_arrays import table_parts, text_array

#: Longest line of a TSV or JSON lines file of pairs that is read back.
MAX_LINE_CHARS = 100_000_000
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
    columns = {
        "score": _rounded(pairs["score"]),
        "cosine": _rounded(pairs["cosine"]),
        "source_mean": _rounded(source_means),
        "target_mean": _rounded(target_means),
        "rank": pa.array(pairs["rank"], pa.int32()),
        "direction": pa.array(np.array(DIRECTIONS, dtype=object)[pairs["direction"]], pa.string()),
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


def _typed(table: pa.Table, path: Path, columns: list[str]) -> pa.Table:
    """The wanted columns with their types."""
    check_columns(table.column_names, columns, path)
    wrong = [name for name in columns if name.endswith("_id") and pa.types.is_floating(table.schema.field(name).type)]
    if wrong:
        raise InputError(f"{path}: column '{wrong[0]}' holds numbers with decimals: ids are texts or whole numbers")
    try:
        return table.select(columns).cast(pa.schema([PAIRS_SCHEMA.field(name) for name in columns]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: a value does not fit its column: {error}") from None


def check_columns(names: list[str], wanted: list[str], path: str | Path) -> None:
    """Raise UsageError when a wanted column of a file of pairs is missing or stands twice."""
    for name in wanted:
        if names.count(name) != 1:
            wrong = "is missing" if name not in names else "stands twice"
            raise UsageError(
                f"{path}: not a file of mined pairs: column '{name}' {wrong}; its columns are {', '.join(names)}"
            )


def _read_tsv(path: Path, lines: Iterator[tuple[int, str]], wanted: list[str]) -> pa.Table:
    header: list[str] = next(lines, (1, ""))[1].split("\t")
    columns: dict[int, list[str]] = {index: [] for index, name in enumerate(header) if name in wanted}
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise InputError(f"{path}:{number}: {len(fields)} columns where the first line names {len(header)}")
        for index, column in columns.items():
            column.append(fields[index])
    check_columns(header, wanted, path)
    return pa.table([text_array(column) for column in columns.values()], names=[header[index] for index in columns])


def _read_jsonl(path: Path, lines: Iterator[tuple[int, str]], wanted: list[str]) -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in wanted}
    for number, line in lines:
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON lines: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}:{number}: not a JSON object: each line holds one pair")
        check_columns(list(record), wanted, f"{path}:{number}")
        for name, values in columns.items():
            values.append(record[name])
    try:
        return pa.table({name: _array(values) for name, values in columns.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{path}: a value does not fit its column: {error}") from None


def _array(values: list[object]) -> pa.Array:
    texts = [value for value in values if value is None or isinstance(value, str)]
    return text_array(texts) if len(texts) == len(values) else pa.array(values)


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a TSV or JSON lines file, compressed or not; only ``\n`` ends one."""
    for number, line in numbered_lines(str(path), "skip", MAX_LINE_CHARS):
        if isinstance(line, FaultyLine):
            raise InputError(
                f"{path}:{number}: {line.reason.words} in a file of mined pairs: correct or remove the line"
            )
        yield number, without_marks(line)


def read_pairs_file(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read mined pairs (`columns` of `PAIRS_SCHEMA`, by default all) from Parquet, TSV or JSON
    lines, the latter two compressed or not.

    Raises UsageError when the file is missing or has other columns, InputError when a row does not
    fit.
    """
    path = Path(path)
    columns = columns or PAIRS_SCHEMA.names
    if not path.is_file():
        raise UsageError(f"{path}: no such file of pairs")
    kind = next((s for s in path.suffixes[::-1] if s not in {".gz", ".bz2", ".xz", ".zst"}), "")
    if kind == ".parquet":
        check_columns(read_parquet_schema(path).names, columns, path)
        return _typed(read_parquet(path, columns), path, columns)
    if kind in (".tsv", ".jsonl"):
        read = _read_tsv if kind == ".tsv" else _read_jsonl
        return _typed(read(path, _text_lines(path), columns), path, columns)
    raise UsageError(f"{path}: pairs are read from .parquet, .tsv or .jsonl files")
