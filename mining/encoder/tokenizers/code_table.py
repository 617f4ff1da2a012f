"""Numbers to ids, many at a time: a hash table in numpy."""

from __future__ import annotations

import numpy as np

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPARSE = 4
"""Slots of the table for each entry, at least."""


class CodeTable:
    """Finds the places of 64-bit codes in a list of distinct codes, none of them 0: open
    addressing, linear probing."""

    def __init__(self, codes: np.ndarray) -> None:
        """`codes` (n,) uint64; code ``i`` has id ``i + 1``."""
        bits = max(4, int(len(codes) * _SPARSE - 1).bit_length())
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._keys = np.zeros(1 << bits, np.uint64)
        self._ids = np.zeros(1 << bits, np.int32)
        self._insert(codes, np.arange(1, len(codes) + 1, dtype=np.int32))

    def _slots(self, codes: np.ndarray) -> np.ndarray:
        return ((codes * _MIX) >> self._shift).astype(np.int64)

    def _insert(self, codes: np.ndarray, ids: np.ndarray) -> None:
        slots = self._slots(codes)
        while len(codes):
            free = np.flatnonzero(self._keys[slots] == 0)
            _, first = np.unique(slots[free], return_index=True)
            placed = free[first]
            self._keys[slots[placed]] = codes[placed]
            self._ids[slots[placed]] = ids[placed]
            left = np.ones(len(codes), bool)
            left[placed] = False
            codes, ids, slots = codes[left], ids[left], (slots[left] + 1) & self._mask

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Ids of `codes` (n,) uint64, int32; 0 for a code that is not in the list."""
        slots = self._slots(codes)
        keys = self._keys[slots]
        found = np.where(keys == codes, self._ids[slots], np.int32(0))
        open_ = np.flatnonzero((keys != codes) & (keys != 0))
        while len(open_):
            slots_left = slots[open_] = (slots[open_] + 1) & self._mask
            wanted, keys = codes[open_], self._keys[slots_left]
            hit = keys == wanted
            found[open_[hit]] = self._ids[slots_left[hit]]
            open_ = open_[~hit & (keys != 0)]
        return found
