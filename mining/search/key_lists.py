"""Best lists over whole-number similarities, each entry one number: the key.

A key is the similarity times 2^32 plus 2^32 - 1 - position, so that keys fall by (similarity
descending, position). A list (`count` keys, largest first; EMPTY where nothing was seen yet) is the
`count` largest of the set of keys that it was shown. That does not depend on the order in which
they came, nor on how often: clusters may share pairs, threads may share clusters, and lists may be
merged, and the result is always the same.

A row of a tile is compared in vector registers with the threshold of the row and those of its
columns, one flag an entry, and only where one of eight flags is set are the entries looked at one
by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mining.compiled import compiled

EMPTY = int(np.iinfo(np.int64).min)
_POSITIONS = 1 << 32


def empty_lists(rows: int, count: int) -> NDArray[np.int64]:
    """Lists (rows, count) in which nothing was seen yet."""
    return np.full((rows, count), EMPTY, np.int64)


def positions(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions in keys; -1 for EMPTY."""
    return np.where(keys == EMPTY, -1, _POSITIONS - 1 - (keys & (_POSITIONS - 1)))


def similarities(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The similarities in keys."""
    return keys >> 32


@compiled
def insert(keys, row, similarity, position):  # type: ignore[no-untyped-def]
    """Show an entry to the list of `row`; returns the similarity that the next one must reach.

    The entry sinks through the whole list, without branches: its place cannot be predicted. An
    entry that is there already sinks no further.
    """
    sinking = (np.int64(similarity) << 32) | (np.int64(0xFFFFFFFF) - position)
    for c in range(keys.shape[1]):
        here = keys[row, c]
        keys[row, c] = max(here, sinking)
        sinking = EMPTY if here == sinking else min(here, sinking)
    return np.int32(keys[row, keys.shape[1] - 1] >> 32)


@compiled
def _mark(entries, threshold, limits, flags):  # type: ignore[no-untyped-def]
    for j in range(entries.shape[0]):
        flags[j] = np.uint8((entries[j] >= threshold) | (entries[j] >= limits[j]))


@compiled
def _limits(keys):  # type: ignore[no-untyped-def]
    limits = np.empty(keys.shape[0], np.int32)
    for j in range(keys.shape[0]):
        limits[j] = keys[j, keys.shape[1] - 1] >> 32
    return limits


@compiled
def update(tile, rows, columns, row_keys, column_keys):  # type: ignore[no-untyped-def]
    """Show a tile of similarities to the lists of its rows and of its columns.

    `tile` (r, c) int32; `rows` (r,) and `columns` (c,) int64 are the positions that its rows and
    columns stand for, distinct; `row_keys` and `column_keys` hold a list for each position.
    """
    width, last = columns.shape[0], row_keys.shape[1] - 1
    # The lists of the columns are asked for all over the tile: side by side they stay in the cache.
    here = column_keys[columns]
    limits = _limits(here)
    flags = np.zeros((width + 7) // 8 * 8, np.uint8)
    words = flags.view(np.uint64)
    for i in range(rows.shape[0]):
        entries, row = tile[i], rows[i]
        threshold = np.int32(row_keys[row, last] >> 32)
        _mark(entries, threshold, limits, flags)
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, width)):
                if flags[j]:
                    value = entries[j]
                    if value >= threshold:
                        threshold = insert(row_keys, row, value, columns[j])
                    if value >= limits[j]:
                        limits[j] = insert(here, j, value, row)
    column_keys[columns] = here


@compiled
def update_rows(tile, first, keys):  # type: ignore[no-untyped-def]
    """Show a tile (r, c) int32 to the lists `keys` of its r rows alone; its columns are positions
    from `first` on."""
    width, last = tile.shape[1], keys.shape[1] - 1
    limits = np.full(width, np.iinfo(np.int32).max, np.int32)
    flags = np.zeros((width + 7) // 8 * 8, np.uint8)
    words = flags.view(np.uint64)
    for i in range(tile.shape[0]):
        entries = tile[i]
        threshold = np.int32(keys[i, last] >> 32)
        _mark(entries, threshold, limits, flags)
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, width)):
                if entries[j] >= threshold:
                    threshold = insert(keys, i, entries[j], first + j)


@compiled
def merge_keys(keys, other, start, stop):  # type: ignore[no-untyped-def]
    """Show the lists `other` to the lists `keys`, for rows `start` to `stop`."""
    for row in range(start, stop):
        for c in range(other.shape[1]):
            key = other[row, c]
            if key <= keys[row, keys.shape[1] - 1]:
                break
            insert(keys, row, key >> 32, np.int64(0xFFFFFFFF) - (key & 0xFFFFFFFF))
