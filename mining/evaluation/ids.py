"""Where ids stand among others: a hash table over their bytes, compiled, built once and asked
often."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges
from mining.corpus.cells import string_buffers
from mining.text_arrays import text_array

#: Ids, as a list or in Arrow.
Ids: TypeAlias = list[str] | pa.Array | pa.ChunkedArray

#: FNV-1a of 64 bits (Fowler, Noll and Vo), and the finaliser of MurmurHash3, since slots are taken
#: from the low bits.
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_STIR, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(33)
#: A slot is 0 when it is free; else its upper half is that of the hash, its lower half a place,
#: counted from 1.
_TAG, _PLACE = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)
#: Ids sought together.
_BATCH = 256
#: Ids below which another thread does not pay.
_LEAST_IDS = 16_384


def id_array(ids: Ids) -> pa.Array:
    """Ids as one Arrow array that holds more than 2 GiB of text if need be."""
    if isinstance(ids, list):
        return text_array(ids)
    array = ids.cast(pa.large_string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


@compiled
def _hash(data, start, stop):  # type: ignore[no-untyped-def]
    value = _OFFSET
    for i in range(start, stop):
        value = (value ^ np.uint64(data[i])) * _PRIME
    value = (value ^ (value >> _HALF)) * _STIR
    return value ^ (value >> _HALF)


@compiled
def _same(one, a, other, b, size):  # type: ignore[no-untyped-def]
    for i in range(size):  # noqa: SIM110 - a generator is no code for a kernel
        if one[a + i] != other[b + i]:
            return False
    return True


@compiled
def _slot(asked, start, stop, value, data, offsets, slots):  # type: ignore[no-untyped-def]
    """The slot of some bytes with that hash: the one where they stand, or the free one where they
    would."""
    mask = np.uint64(len(slots) - 1)
    slot = value & mask
    while slots[slot] != 0:
        if (slots[slot] ^ value) & _TAG == 0:
            row = np.int64(slots[slot] & _PLACE) - 1
            if offsets[row + 1] - offsets[row] == stop - start and _same(
                asked, start, data, offsets[row], stop - start
            ):
                break
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def _build(data, offsets, slots, codes, firsts):  # type: ignore[no-untyped-def]
    """Fill the slots with rows and the codes; returns how many rows are the first of their id."""
    count = 0
    for row in range(len(offsets) - 1):
        value = _hash(data, offsets[row], offsets[row + 1])
        slot = _slot(data, offsets[row], offsets[row + 1], value, data, offsets, slots)
        if slots[slot] == 0:
            slots[slot] = (value & _TAG) | np.uint64(row + 1)
            codes[row], firsts[count] = count, row
            count += 1
        else:
            codes[row] = codes[np.int64(slots[slot] & _PLACE) - 1]
    return count


@compiled
def _recode(slots, codes):  # type: ignore[no-untyped-def]
    """Let the slots hold codes in place of rows."""
    for slot in range(len(slots)):
        if slots[slot] != 0:
            row = np.int64(slots[slot] & _PLACE) - 1
            slots[slot] = (slots[slot] & _TAG) | np.uint64(codes[row] + 1)


@compiled
def _touch(values, data, offsets, slots):  # type: ignore[no-untyped-def]
    """Fetch what a search for these hashes will look at: loads that wait for nothing overlap, those
    of one search after the other do not."""
    mask, seen = np.uint64(len(slots) - 1), 0
    places = np.empty(len(values), dtype=np.int64)
    for i in range(len(values)):
        entry = slots[values[i] & mask]
        places[i] = np.int64(entry & _PLACE) - (entry != 0)
    for i in range(len(values)):
        places[i] = offsets[places[i]]
    for i in range(len(values)):
        seen += data[min(places[i], len(data) - 1)]
    return seen


@compiled
def _find(asked, limits, data, offsets, slots, first, last, found):  # type: ignore[no-untyped-def]
    values, seen = np.empty(_BATCH, dtype=np.uint64), 0
    for start in range(first, last, _BATCH):
        stop = min(start + _BATCH, last)
        for row in range(start, stop):
            values[row - start] = _hash(asked, limits[row], limits[row + 1])
        if len(data) > 0:
            seen += _touch(values[: stop - start], data, offsets, slots)
        for row in range(start, stop):
            slot = _slot(asked, limits[row], limits[row + 1], values[row - start], data, offsets, slots)
            found[row] = np.int64(slots[slot] & _PLACE) - 1
    return seen


class IdIndex:
    """Distinct ids and their places, for fewer than 2**32 ids.

    `ids` are the distinct ones in order of first occurrence, `codes` (n,) int64 the place of each
    given id among them.
    """

    ids: pa.Array
    codes: NDArray[np.int64]

    def __init__(self, ids: Ids) -> None:
        array = id_array(ids)
        self._data, self._offsets = string_buffers(array)
        self._slots = np.zeros(1 << max(3, (2 * len(array)).bit_length()), dtype=np.uint64)
        self.codes, firsts = np.empty(len(array), dtype=np.int64), np.empty(len(array), dtype=np.int64)
        count = _build(self._data, self._offsets, self._slots, self.codes, firsts)
        self.ids = array
        if count < len(array):
            self.ids = array.take(pa.array(firsts[:count]))
            self._data, self._offsets = string_buffers(self.ids)
            _recode(self._slots, self.codes)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, column: Ids, threads: int = 0) -> NDArray[np.int64]:
        """The place of each id of `column` (n,) among the distinct ones: (n,) int64, -1 for one
        that is not there."""
        array = id_array(column)
        asked, limits = string_buffers(array)
        found = np.empty(len(array), dtype=np.int64)
        table = self._data, self._offsets, self._slots
        in_ranges(lambda a, b: _find(asked, limits, *table, a, b, found), len(array), threads, _LEAST_IDS)
        if array.null_count:
            found[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return found
