"""FAISS indexes from a factory string: trained on a sample, one a shard, saved, reopened, searched.

An index proposes; the cosines of what it proposes are recomputed from the stored vectors. The
positions in an index are those of the rows it was built from; ids are added by the caller.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.errors import InputError, UsageError
from mining.io.atomic import replacing
from mining.search.topk import Neighbours, cut, no_neighbours
from mining.search.vectors import exact_cosines

log = logging.getLogger(__name__)

#: FAISS advises at least this many training rows for each centroid.
ROWS_PER_CENTROID = 39
#: Entries proposed at a time, about 40 bytes each until they are cut.
_PROPOSED = 1 << 18


def import_faiss() -> Any:
    """The faiss module; raises UsageError with the mend when neither extra is installed."""
    try:
        import faiss
    except ImportError:
        raise UsageError(
            "faiss is not installed: pip install 'bitext-miner[cpu]' (or [gpu], never both), "
            "or set search.backend: torch"
        ) from None
    return faiss


def _reason(error: RuntimeError) -> str:
    """What FAISS says, without the place in its code."""
    return str(error).strip().split("\n")[-1].split("Error: ")[-1].split(" at /")[0]


@contextlib.contextmanager
def faiss_threads(count: int) -> Iterator[None]:
    """Let FAISS use `count` threads (0: as before) within the block."""
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def new_index(factory: str, dim: int) -> Any:
    """An empty inner-product index; raises UsageError when FAISS does not know the factory
    string."""
    faiss = import_faiss()
    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        reason = _reason(error)
        raise UsageError(f"search.index '{factory}' does not fit {dim} dimensions: {reason}") from None


def train_index(factory: str, sample: NDArray[np.float32]) -> Any:
    """An index trained on `sample` (n, d) float32 and still empty.

    Training uses one thread: k-means with more of them rounds differently, and so would the result.
    Raises UsageError when the sample is smaller than the number of centroids.
    """
    faiss = import_faiss()
    index = new_index(factory, sample.shape[1])
    if index.is_trained:
        return index
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        if len(sample) < inverted.nlist:
            raise UsageError(
                f"search.index '{factory}' needs at least {inverted.nlist} rows to train on "
                f"and this side has {len(sample)}: use fewer centroids or search.method: exact"
            )
        if len(sample) < ROWS_PER_CENTROID * inverted.nlist:
            log.warning(
                "index %s: %d training rows for %d centroids; at least %d are advised",
                factory,
                len(sample),
                inverted.nlist,
                ROWS_PER_CENTROID * inverted.nlist,
            )
    with faiss_threads(1):
        try:
            index.train(np.ascontiguousarray(sample, dtype=np.float32))
        except RuntimeError as error:
            reason = _reason(error)
            raise UsageError(f"search.index '{factory}' cannot be trained on {len(sample)} rows: {reason}") from None
    return index


def save_index(index: Any, path: str | Path) -> None:
    """Write an index beside its final name and rename it."""
    with replacing(path) as temporary:
        import_faiss().write_index(index, temporary)


def open_index(path: str | Path, dim: int, rows: int | None = None) -> Any:
    """Read an index and check its dimension, metric and number of rows; raises InputError when they
    differ."""
    faiss = import_faiss()
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        reason = _reason(error)
        raise InputError(f"{path}: not a readable FAISS index: {reason}") from None
    if index.d != dim:
        raise InputError(f"{path}: the index has {index.d} dimensions and the vectors have {dim}")
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise InputError(f"{path}: the index does not rank by inner product")
    if rows is not None and index.ntotal != rows:
        raise InputError(f"{path}: the index holds {index.ntotal} rows and its shard {rows}")
    return index


def add_rows(index: Any, vectors: NDArray[np.float32], block: int = 65_536) -> None:
    """Add rows (n, d) float32 to a trained index, in blocks."""
    for start in range(0, len(vectors), block):
        index.add(np.ascontiguousarray(vectors[start : start + block], dtype=np.float32))


def set_parameters(index: Any, parameters: str) -> None:
    """Set search parameters such as ``nprobe=16``; raises UsageError for one that this index does
    not have."""
    if not parameters:
        return
    faiss = import_faiss()
    try:
        faiss.ParameterSpace().set_index_parameters(index, parameters)
    except RuntimeError as error:
        reason = _reason(error)
        raise UsageError(f"search.parameters '{parameters}' do not fit this index: {reason}") from None


def build_index(factory: str, vectors: NDArray[np.float32], training_rows: int) -> Any:
    """An index of rows (n, d) float32, trained on at most `training_rows` of them."""
    from mining.search.cluster_join import evenly_spaced

    index = train_index(factory, vectors[evenly_spaced(len(vectors), training_rows)])
    add_rows(index, vectors)
    return index


def search_index(
    index: Any, queries: NDArray[np.float32], base: NDArray[np.float32], k: int, proposals: int
) -> Neighbours:
    """The k nearest of what the index proposes for `queries` (n, d), cosines recomputed from its
    rows `base` (m, d).

    More than k `proposals` are asked for, since a compressed index ranks only roughly. Returns
    positions in `base`; a list that the index could not fill ends in -1.
    """
    if len(queries) == 0 or len(base) == 0:
        return no_neighbours(len(queries), k)
    parts, block = [], max(1, _PROPOSED // proposals)
    for start in range(0, len(queries), block):
        part = np.ascontiguousarray(queries[start : start + block], dtype=np.float32)
        _, found = index.search(part, min(proposals, len(base)))
        cosines = np.full(found.shape, -np.inf, dtype=np.float32)
        rows, columns = np.nonzero(found >= 0)
        cosines[rows, columns] = exact_cosines(part, base, rows, found[rows, columns])
        parts.append(cut(found, cosines, k))
    return Neighbours(np.concatenate([p.ids for p in parts]), np.concatenate([p.cosines for p in parts]))
