"""Mining and scoring in memory: the pipeline's kernels on lists of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.checks import check_count, check_names, check_threshold
from mining.config.corpus import MAX_CHARS
from mining.config.mine import MARGIN, STRATEGY
from mining.config.search import K, SearchSettings
from mining.corpus.dedup import first_occurrence, text_keys
from mining.corpus.rows import Row, make_row
from mining.devices import torch_threads
from mining.encoder.protocol import encode_checked
from mining.errors import UsageError
from mining.matching import best_candidates, match
from mining.neighbour_scores import neighbour_means
from mining.pairs import Rows, pairs_table
from mining.schemas import BACKWARD, FORWARD, PAIRS_SCHEMA, SCORES_SCHEMA
from mining.scoring import PairScorer, pool_from_rows
from mining.search.memory import search_settings, search_sides
from mining.search.topk import Neighbours
from mining.search.vectors import VectorShard, to_stored, vector_shard
from mining.shown import shown
from mining.text_arrays import LARGEST, text_array

if TYPE_CHECKING:
    from mining.encoder import Encoder

#: Sentences or ids: str each, None for none.
Texts: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray


def mine(
    source: Texts,
    target: Texts,
    encoder: Encoder,
    k: int = K,
    margin: str = MARGIN,
    strategy: str = STRATEGY,
    *,
    threshold: float | None = None,
    source_ids: Texts | None = None,
    target_ids: Texts | None = None,
    target_encoder: Encoder | None = None,
    threads: int = 0,
    **search: object,
) -> pa.Table:
    """Mine the translations between two lists (or Arrow arrays) of sentences.

    Blank texts are left out, equal ones are mined once. `margin` and `strategy` are as in
    `MineConfig`, `search` are other settings of `SearchSettings` (``method="clusters"``). Ids are
    positions where none are given. `target_encoder` encodes the target side where a model keeps its
    languages apart; `threads` 0 uses every core.

    Returns a table of `mining.schemas.PAIRS_SCHEMA` by falling score, cut at ``score >= threshold``
    if one is given: what ``bitext mine`` gives for the same texts. A lone surrogate stands in it as
    U+FFFD. Raises UsageError when k exceeds a side, ValueError for settings, a threshold or vectors
    that are none, TypeError for anything that is not text.

    >>> from mining import load_encoder, mine
    >>> english, german = ["A cat.", "Good night."], ["Gute Nacht.", "Eine Katze."]
    >>> mine(english, german, load_encoder(), k=2).column("target_text").to_pylist()
    ['Eine Katze.', 'Gute Nacht.']
    """
    check_names(margin, strategy)
    check_threshold(threshold)
    settings = search_settings(k=check_count("k", k), **search)
    sides = Sentences(source, encoder, source_ids), Sentences(target, target_encoder or encoder, target_ids)
    return match_texts(search_texts(*sides, settings, threads), margin, strategy, threshold, threads)


def score_pairs(
    source: Texts,
    target: Texts,
    encoder: Encoder,
    *,
    source_pool: Texts | None = None,
    target_pool: Texts | None = None,
    k: int = K,
    margin: str = MARGIN,
    target_encoder: Encoder | None = None,
    threads: int = 0,
) -> pa.Table:
    """Cosine of n aligned pairs of sentences and, with pools of both sides, their margin: how far
    it stands out from the `k` nearest neighbours of either side in the pool of the other.

    Returns a table of `mining.schemas.SCORES_SCHEMA`, one row a pair in order, scores with six
    decimals; a pair without a score has a `reason`. Raises ValueError for sides of unequal length,
    one pool alone and faulty settings, UsageError when k exceeds a pool, TypeError for anything
    that is not text.

    >>> from mining import load_encoder, score_pairs
    >>> scores = score_pairs(["A cat.", ""], ["Eine Katze.", "Gute Nacht."], load_encoder())
    >>> scores.column("cosine")[0].as_py() > 0.5, scores.column("reason").to_pylist()
    (True, [None, 'blank'])
    """
    left, right = _strings(source, "source"), _strings(target, "target")
    if len(left) != len(right):
        raise ValueError(f"{len(left)} source texts but {len(right)} target texts: they must be aligned")
    if (source_pool is None) != (target_pool is None):
        raise ValueError("the margin needs pools of both sides: give both, or none for the cosine alone")
    pools = None
    if source_pool is not None and target_pool is not None:
        pools = (
            pool_from_rows(_pool_rows(source_pool, "source_pool"), encoder, "source_pool", threads),
            pool_from_rows(_pool_rows(target_pool, "target_pool"), target_encoder or encoder, "target_pool", threads),
        )
    scorer = PairScorer(encoder, pools, k, margin, threads=threads, target_encoder=target_encoder)
    rows = (Row(str(i), pair, "", i, None) for i, pair in enumerate(zip(left, right, strict=True)))
    return pa.concat_tables([SCORES_SCHEMA.empty_table(), *scorer.score(rows)]).combine_chunks()


def _pool_rows(texts: Texts, name: str) -> Iterator[Row]:
    return (make_row(str(i), (text,), name, i, MAX_CHARS) for i, text in enumerate(_strings(texts, name)))


class Sentences(NamedTuple):
    """One side as it is given: its texts, what encodes them, and their ids (None: positions)."""

    texts: Texts
    encoder: Encoder
    ids: Texts | None = None


class Side(NamedTuple):
    """One side: `rows` are its distinct, non-blank texts in order of first occurrence.

    `ids` (n,) are those of all texts that were given, and `row` (n,) int64 is the number of the row
    that stands for each, -1 for a blank one. `valid` (rows,) bool tells the rows that could be
    encoded.
    """

    rows: Rows
    ids: list[str]
    row: NDArray[np.int64]
    valid: NDArray[np.bool_]


class Searched(NamedTuple):
    """Two sides and their neighbours: `forward` (rows, k) of the source in the target, `backward`
    the reverse."""

    source: Side
    target: Side
    forward: Neighbours
    backward: Neighbours


def search_texts(source: Sentences, target: Sentences, settings: SearchSettings, threads: int = 0) -> Searched:
    """What `mine` does before any margin: the distinct texts of both sides and their nearest
    neighbours.

    Raises UsageError and TypeError as `mine` does, and ValueError for vectors that are none.
    """
    with torch_threads(threads):
        (source_side, source_shard), (target_side, target_shard) = (
            _encoded(side, name, threads) for side, name in ((source, "source"), (target, "target"))
        )
        check_k(settings.k, int(source_shard.valid.sum()), int(target_shard.valid.sum()))
        forward, backward = search_sides(source_shard, target_shard, settings, threads)
    return Searched(source_side, target_side, forward, backward)


def match_texts(
    searched: Searched, margin: str, strategy: str, threshold: float | None = None, threads: int = 0
) -> pa.Table:
    """What `mine` does after the search: margins and matching; the table that `mine` returns.

    Raises ValueError as `mine` does.
    """
    check_names(margin, strategy)
    check_threshold(threshold)
    source, target, forward, backward = searched
    means = neighbour_means(forward.cosines), neighbour_means(backward.cosines)
    runs = []
    for lists, own, other, direction in ((forward, 0, 1, FORWARD), (backward, 1, 0, BACKWARD)):
        rows = np.arange(len(lists.ids), dtype=np.int64)
        run, _ = best_candidates(rows, lists, means[own], means[other][lists.ids], margin, direction, threads)
        runs.append(run)
    tables = []
    for block in match(runs, strategy, len(source.rows.ids), len(target.rows.ids)):
        if threshold is not None:
            block = block[block["score"] >= threshold]
        ends = _take(source.rows, block["source"]), _take(target.rows, block["target"])
        tables.append(pairs_table(block, *ends, means[0][block["source"]], means[1][block["target"]]))
    return pa.concat_tables([PAIRS_SCHEMA.empty_table(), *tables]).combine_chunks()


def _take(side: Rows, rows: NDArray[np.int64]) -> Rows:
    index = pa.array(rows)
    return Rows(side.ids.take(index), side.texts.take(index), side.occurrences[rows])


def _encoded(given: Sentences, name: str, threads: int) -> tuple[Side, VectorShard]:
    """The distinct texts of a side and their vectors, as the pipeline keeps them on disk."""
    texts = _strings(given.texts, name)
    ids = _ids(given.ids, len(texts), name)
    usable = np.array([i for i, text in enumerate(texts) if text and not text.isspace()], dtype=np.int64)
    written = text_array([texts[i] for i in usable.tolist()])
    first = first_occurrence(text_keys(written, threads), np.zeros(len(usable), np.int64), usable)
    kept, number, occurrences = np.unique(first, return_inverse=True, return_counts=True)
    row = np.full(len(texts), -1, dtype=np.int64)
    row[usable] = number
    index = usable[kept]
    rows = Rows(ids.take(pa.array(index)), written.take(pa.array(kept)), occurrences.astype(np.int64))
    # The texts as they were given, lone surrogates and all.
    vectors, valid = encode_checked(
        given.encoder, [texts[i] for i in index.tolist()], threads, lambda i: f"{name}[{index[i]}]"
    )
    return Side(rows, ids.to_pylist(), row, valid), vector_shard(0, valid, to_stored(vectors))


def _strings(values: Texts, name: str) -> list[str]:
    """Texts of a caller as a list, "" for None; raises TypeError for anything that is not text."""
    if isinstance(values, str):
        raise TypeError(f"{name} is one str; give a list of them")
    texts = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)
    for index, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name}[{index}] is {type(text).__name__}, not str")
        # A character takes four bytes of UTF-8 at most.
        if text is not None and len(text) > LARGEST // 4 and len(text.encode("utf-8", "replace")) > LARGEST:
            raise ValueError(f"{name}[{index}] has more than {LARGEST} bytes of UTF-8: cut it into sentences")
    return ["" if text is None else text for text in texts]


def _ids(ids: Texts | None, count: int, name: str) -> pa.Array:
    """The ids of a side, positions where there are none; raises ValueError for one that stands
    twice."""
    array = text_array([str(i) for i in range(count)] if ids is None else _strings(ids, f"{name}_ids"))
    if len(array) != count:
        raise ValueError(f"{name} has {count} texts and {len(array)} ids")
    found = Counter(array.to_pylist())
    if len(found) < count:
        raise ValueError(f"{name}_ids: an id stands twice: '{shown(found.most_common(1)[0][0])}'")
    return array


def check_k(k: int, source_rows: int, target_rows: int) -> None:
    """Raise UsageError when a side has fewer sentences to choose from than k."""
    for side, rows in (("source", source_rows), ("target", target_rows)):
        if rows < k:
            raise UsageError(
                f"k = {k} nearest neighbours, but the {side} side has only {rows} usable sentences: "
                + (f"set k (search.k, --k) to at most {rows}" if rows else "nothing can be mined")
            )
