"""Mining in memory: the pipeline's kernels on two lists of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.checks import check_counts, check_names, check_threshold
from mining.corpus.dedup import first_occurrence
from mining.corpus.keys import text_keys
from mining.devices import torch_threads
from mining.encoder.protocol import encode_checked
from mining.errors import UsageError
from mining.matching import best_candidates, match
from mining.neighbour_scores import neighbour_means
from mining.pairs import Rows, pairs_table
from mining.schemas import BACKWARD, FORWARD, PAIRS_SCHEMA
from mining.search.memory import search_settings, search_sides
from mining.search.neighbours import Neighbours
from mining.search.shards import VectorShard, vector_shard
from mining.search.vectors import to_stored
from mining.shown import shown
from mining.text_arrays import LARGEST, text_array

if TYPE_CHECKING:
    from mining.encoder import Encoder

Texts: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray


def _strings(values: Texts, name: str) -> list[str]:
    if isinstance(values, str):
        raise TypeError(f"{name} is one str; give a list of them")
    texts = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)
    for position, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name}[{position}] is {type(text).__name__}, not str")
        # A character takes four bytes of UTF-8 at most.
        if text is not None and len(text) > LARGEST // 4 and len(text.encode("utf-8", "replace")) > LARGEST:
            raise ValueError(f"{name}[{position}] has more than {LARGEST} bytes of UTF-8: cut it into sentences")
    return ["" if text is None else text for text in texts]


class Side(NamedTuple):
    """One side: `rows` are its distinct, non-blank texts in order of first occurrence.

    `ids` (n,) are those of all texts that were given, and `row` (n,) int64 is the number of the row
    that stands for each, -1 for a blank one.
    """

    rows: Rows
    ids: list[str]
    row: NDArray[np.int64]


class Searched(NamedTuple):
    """Two sides and their neighbours: `forward` (rows, k) of the source in the target, `backward`
    the reverse.

    `source_valid` and `target_valid` (rows,) bool tell the rows that could be encoded.
    """

    source: Side
    target: Side
    source_valid: NDArray[np.bool_]
    target_valid: NDArray[np.bool_]
    forward: Neighbours
    backward: Neighbours


class _Given(NamedTuple):
    """The texts of the rows of a side as they were given, lone surrogates and all, and their places
    in the argument."""

    texts: list[str]
    places: list[int]


def _names(ids: Texts | None, count: int, name: str) -> pa.Array:
    names = text_array([str(place) for place in range(count)] if ids is None else _strings(ids, f"{name}_ids"))
    if len(names) != count:
        raise ValueError(f"{name} has {count} texts and {len(names)} ids")
    found = Counter(names.to_pylist())
    if len(found) < count:
        raise ValueError(f"{name}_ids: an id stands twice: '{shown(found.most_common(1)[0][0])}'")
    return names


def _side(values: Texts, ids: Texts | None, name: str, threads: int) -> tuple[Side, _Given]:
    texts = _strings(values, name)
    names = _names(ids, len(texts), name)
    usable = np.array([i for i, text in enumerate(texts) if text and not text.isspace()], dtype=np.int64)
    written = text_array([texts[i] for i in usable.tolist()])
    first = first_occurrence(text_keys(written, threads), np.zeros(len(usable), np.int64), usable)
    kept, number, occurrences = np.unique(first, return_inverse=True, return_counts=True)
    places = usable[kept]
    rows = Rows(names.take(pa.array(places)), written.take(pa.array(kept)), occurrences.astype(np.int64))
    row = np.full(len(texts), -1, dtype=np.int64)
    row[usable] = number
    given = _Given([texts[i] for i in places.tolist()], places.tolist())
    return Side(rows, names.to_pylist(), row), given


def _encode(given: _Given, encoder: Encoder, threads: int, name: str) -> VectorShard:
    vectors, valid = encode_checked(encoder, given.texts, threads, lambda row: f"{name}[{given.places[row]}]")
    return vector_shard(0, valid, to_stored(vectors))


def check_k(k: int, source_rows: int, target_rows: int) -> None:
    """Raise UsageError when a side has fewer sentences to choose from than k."""
    for side, rows in (("source", source_rows), ("target", target_rows)):
        if rows < k:
            raise UsageError(
                f"k = {k} nearest neighbours, but the {side} side has only {rows} usable sentences: "
                + (f"set k (search.k, --k) to at most {rows}" if rows else "nothing can be mined")
            )


def _runs(
    forward: Neighbours, backward: Neighbours, margin: str, threads: int
) -> tuple[list[NDArray[np.void]], NDArray[np.float64], NDArray[np.float64]]:
    means = neighbour_means(forward.cosines), neighbour_means(backward.cosines)
    runs = []
    for lists, own, other, direction in ((forward, 0, 1, FORWARD), (backward, 1, 0, BACKWARD)):
        rows = np.arange(len(lists.ids), dtype=np.int64)
        run, _ = best_candidates(rows, lists, means[own], means[other][lists.ids], margin, direction, threads)
        runs.append(run)
    return runs, *means


def _take(side: Rows, rows: NDArray[np.int64]) -> Rows:
    index = pa.array(rows)
    return Rows(side.ids.take(index), side.texts.take(index), side.occurrences[rows])


def mine(
    source: Texts,
    target: Texts,
    encoder: Encoder,
    k: int = 4,
    margin: str = "ratio",
    strategy: str = "max",
    *,
    threshold: float | None = None,
    source_ids: Texts | None = None,
    target_ids: Texts | None = None,
    target_encoder: Encoder | None = None,
    method: str = "auto",
    threads: int = 0,
    **settings: Any,
) -> pa.Table:
    """Mine the translations between two lists (or Arrow arrays) of sentences.

    Blank texts are left out, equal ones are mined once (`source_occurrences`, `target_occurrences`
    count them), `k` nearest neighbours are taken in both directions, scored by `margin` (``ratio``,
    ``distance`` or ``absolute``) and matched by `strategy` (``forward``, ``backward``,
    ``intersection`` or ``max``). `method` is the search: ``exact``,
    ``clusters``, ``faiss``, or ``auto``, which goes by the number of rows as `bitext plan` does;
    `settings` are its settings, as under `search` in a configuration (`nprobe`, `device`, …).
    Without ids the positions serve, as strings. `target_encoder` encodes the target side where a
    model keeps its languages apart.

    Returns a table of `mining.schemas.PAIRS_SCHEMA` by falling score, cut at ``score >= threshold``
    if one is given: the same pairs and scores as ``bitext mine`` gives for the same texts. A lone
    surrogate (of a text read with ``surrogateescape``) is encoded as the encoder reads it and
    stands in the table as U+FFFD. Raises UsageError when k exceeds a side, ValueError for an
    unknown margin, strategy or method, a count below 1, a threshold that is not finite and vectors
    that are none, TypeError for anything that is not text.

    >>> from mining import load_encoder, mine  # doctest: +SKIP
    >>> english, german = ["A cat.", "Good night."], ["Gute Nacht.", "Eine Katze."]
    >>> pairs = mine(english, german, load_encoder("model"), k=2)  # doctest: +SKIP
    >>> pairs.select(["score", "source_text", "target_text"]).to_pylist()  # doctest: +SKIP
    """
    check_names(margin, strategy)
    check_threshold(threshold)
    searched = search_texts(
        source,
        target,
        encoder,
        k,
        source_ids=source_ids,
        target_ids=target_ids,
        target_encoder=target_encoder,
        method=method,
        threads=threads,
        **settings,
    )
    return match_texts(searched, margin, strategy, threshold, threads)


def search_texts(
    source: Texts,
    target: Texts,
    encoder: Encoder,
    k: int = 4,
    *,
    source_ids: Texts | None = None,
    target_ids: Texts | None = None,
    target_encoder: Encoder | None = None,
    method: str = "auto",
    threads: int = 0,
    **settings: Any,
) -> Searched:
    """What `mine` does before any margin: the distinct texts of both sides and their k nearest
    neighbours.

    Arguments and errors as for `mine`.
    """
    check_counts(k=k)
    search = search_settings(k=k, method=method, **settings)
    with torch_threads(threads):
        source_side, source_given = _side(source, source_ids, "source", threads)
        target_side, target_given = _side(target, target_ids, "target", threads)
        shards = (
            _encode(source_given, encoder, threads, "source"),
            _encode(target_given, target_encoder or encoder, threads, "target"),
        )
        check_k(k, int(shards[0].valid.sum()), int(shards[1].valid.sum()))
        forward, backward = search_sides(*shards, search, threads)
    return Searched(source_side, target_side, shards[0].valid, shards[1].valid, forward, backward)


def match_texts(
    searched: Searched, margin: str, strategy: str, threshold: float | None = None, threads: int = 0
) -> pa.Table:
    """What `mine` does after the search: margins and matching; the table that `mine` returns.

    Raises ValueError as `mine` does.
    """
    check_names(margin, strategy)
    check_threshold(threshold)
    runs, source_means, target_means = _runs(searched.forward, searched.backward, margin, threads)
    sides = searched.source.rows, searched.target.rows
    tables = []
    for block in match(runs, strategy, len(sides[0].ids), len(sides[1].ids)):
        if threshold is not None:
            block = block[block["score"] >= threshold]
        rows = block["source"], block["target"]
        ends = _take(sides[0], rows[0]), _take(sides[1], rows[1])
        tables.append(pairs_table(block, *ends, source_means[rows[0]], target_means[rows[1]]))
    return pa.concat_tables([PAIRS_SCHEMA.empty_table(), *tables]).combine_chunks()
