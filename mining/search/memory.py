"""Search in memory: two sides by any method, as the pipeline searches two shards."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from mining.config.base import explain
from mining.config.search import AUTO, K, SearchSettings
from mining.devices import torch_threads
from mining.search.methods import METHODS, Runtime
from mining.search.planner import choose
from mining.search.topk import Neighbours
from mining.search.vectors import VectorShard, to_stored, vector_shard


def search_settings(**given: object) -> SearchSettings:
    """Settings from keyword arguments; raises ValueError, which names each faulty one and each that
    the method does not look at."""
    method = given.get("method", AUTO)
    for key in given:
        owners = SearchSettings.owners(key)
        if owners and method not in owners:
            raise ValueError(f"search: {key}: is for method {' or '.join(owners)}, and the method is {method}")
    try:
        return SearchSettings.model_validate(given)
    except ValidationError as error:
        raise ValueError(str(explain(error, SearchSettings, "search"))) from None


def search_sides(
    source: VectorShard, target: VectorShard, settings: SearchSettings, threads: int = 0
) -> tuple[Neighbours, Neighbours]:
    """Neighbours of both directions by the method of `settings`; `auto` goes by the number of valid
    rows."""
    sizes = len(source.vectors), len(target.vectors)
    method = choose(settings, *sizes, source.vectors.shape[1], threads).method
    with torch_threads(threads):
        return METHODS[method].search(source, target, settings.k, settings.of(method), Runtime(threads))


def _shard(vectors: ArrayLike, name: str) -> VectorShard:
    rows = np.asarray(vectors, np.float32)
    if rows.ndim != 2:
        raise ValueError(f"{name}: vectors of shape {rows.shape}; give a matrix, one row a vector")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    if not np.isfinite(lengths).all():
        raise ValueError(f"{name}: row {int(np.argmin(np.isfinite(lengths)))} is not finite")
    valid: NDArray[np.bool_] = lengths > 0
    unit = (rows / np.where(valid, lengths, 1.0)[:, None]).astype(np.float32)
    return vector_shard(0, valid, to_stored(unit))


def search_neighbours(
    source_vectors: ArrayLike,
    target_vectors: ArrayLike,
    k: int = K,
    method: str = AUTO,
    *,
    threads: int = 0,
    **settings: object,
) -> tuple[Neighbours, Neighbours]:
    """The k nearest neighbours by cosine in both directions.

    `source_vectors` (n, d) and `target_vectors` (m, d) are brought to unit length and rounded to
    float16, as the pipeline keeps them; rows of zeros have no neighbours. `method` is a search
    method or ``auto``, `settings` are those of the method (`nprobe`, `index`, …) and `device`.

    Returns forward (n, k) and backward (m, k) lists of row numbers of the other side, int64, with
    their cosines, float32, by (cosine descending, row number); a list that is shorter than k ends
    in -1 and -inf. Raises ValueError for vectors that are none and for faulty settings.

    >>> from mining import search_neighbours
    >>> forward, backward = search_neighbours([[1, 0], [0, 1]], [[0, 2], [3, 0], [1, 1]], k=2)
    >>> forward.ids.tolist()
    [[1, 2], [0, 2]]
    >>> backward.ids.tolist()
    [[1, 0], [0, 1], [0, 1]]
    """
    source, target = _shard(source_vectors, "source"), _shard(target_vectors, "target")
    if source.vectors.shape[1] != target.vectors.shape[1]:
        raise ValueError(f"vectors of {source.vectors.shape[1]} and of {target.vectors.shape[1]} dimensions")
    return search_sides(source, target, search_settings(k=k, method=method, **settings), threads)
