"""Exact duplicates: the key of a text, and the first occurrence of each key within a hash
bucket."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mining.unseen import without_unseen

KEY_BYTES = 16


def dedup_key(text: str) -> bytes:
    """16 bytes that are equal for texts equal up to NFKC, what is unseen and white space (case
    counts).

    The text is normalised to NFKC, the characters of `unseen` are left out, each run of white space
    becomes one space, and both ends are stripped; the key is the BLAKE2b digest of its UTF-8.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        # Forms of letters with a vowel sign come apart in the first step, and what stood around a
        # sign may compose.
        seen = without_unseen("", text)
        text = text if len(seen) == len(text) else unicodedata.normalize("NFKC", seen)
    normal = " ".join(text.split())
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def key_order(first: NDArray[np.uint64], *rest: NDArray[Any]) -> NDArray[np.int64]:
    """Indices (n,) that sort by `first` and, where that is equal, by each of `rest` in turn and by
    the index itself.

    Halves of digests are equal for equal texts and hardly ever else: one plain sort of numbers does
    nearly all, and only the tied rows need the rest.
    """
    order = np.argsort(first)
    ranked = first[order]
    equal = np.zeros(len(order) + 1, dtype=bool)
    equal[1:-1] = ranked[1:] == ranked[:-1]
    tied = np.flatnonzero(equal[1:] | equal[:-1])
    again = order[tied]
    order[tied] = again[np.lexsort([again, *(values[again] for values in (*rest[::-1], first))])]
    return order


def first_occurrence(
    keys: NDArray[np.uint8], chunk: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each row, the index of the first row with the same key, first by (chunk, position).

    `keys` is (n, 16) uint8, `chunk` and `position` are (n,) int64, in any order. Returns (n,)
    int64; a row is its own first occurrence exactly if it is kept, so ``np.flatnonzero(first !=
    np.arange(n))`` are the duplicates.
    """
    keys = np.ascontiguousarray(keys, dtype=np.uint8)
    n = len(keys)
    if keys.shape != (n, KEY_BYTES) or chunk.shape != (n,) or position.shape != (n,):
        raise ValueError(f"expected keys (n, {KEY_BYTES}), chunk (n,), position (n,); got {keys.shape}, {chunk.shape}")
    halves = keys.view(np.uint64)
    order = key_order(halves[:, 0], halves[:, 1], chunk, position)
    ranked = halves[order]
    opens = np.ones(n, dtype=bool)
    opens[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    start = np.maximum.accumulate(np.where(opens, np.arange(n), 0))
    first = np.empty(n, dtype=np.int64)
    first[order] = order[start]
    return first


def first_occurrence_reference(
    keys: NDArray[np.uint8], chunk: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The same with a dictionary, row by row: slow and obvious."""
    best: dict[bytes, tuple[int, int, int]] = {}
    for index, key in enumerate(keys):
        place = (int(chunk[index]), int(position[index]), index)
        best[key.tobytes()] = min(best.get(key.tobytes(), place), place)
    return np.array([best[key.tobytes()][2] for key in keys], dtype=np.int64)
