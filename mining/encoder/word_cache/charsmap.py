"""Sentencepiece's rules of normalisation: a double-array trie of what is replaced, and by what.

The blob is the size of the trie in bytes (uint32), its units (uint32 each, in the layout of
darts-clone), and the replacements, each ended by a NUL. At each place of a text the longest key
that matches is replaced; where none does, one character is copied.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from mining.compiled import compiled
from mining.encoder.normaliser import read_rules

_DEEPEST = 64
_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Charsmap(NamedTuple):
    """The trie as compiled code walks it, and its keys."""

    units: np.ndarray
    """(u,) uint32; without rules units that lead nowhere"""
    values: np.ndarray
    """(b,) uint8: the replacements, each ended by a zero"""
    keys: np.ndarray
    """(total,) uint8: all keys, end to end"""
    ends: np.ndarray
    """(k + 1,) int64: key i is ``keys[ends[i]:ends[i + 1]]``"""
    places: np.ndarray
    """(k,) int64: where in `values` its replacement starts"""

    def replacement(self, place: int) -> bytes:
        """The replacement that starts at a place of `values`."""
        rest = self.values[place : place + 256].tobytes()
        return rest[: rest.index(b"\0")]

    def single(self) -> dict[bytes, bytes]:
        """The keys of one byte, with what stands for them."""
        found = np.flatnonzero(np.diff(self.ends) == 1)
        return {self.keys[self.ends[i] : self.ends[i] + 1].tobytes(): self.replacement(self.places[i]) for i in found}

    def longer(self) -> np.ndarray:
        """(256,) bool: the bytes that occur in keys of two bytes and more."""
        lengths = np.diff(self.ends)
        seen = np.zeros(256, bool)
        seen[self.keys[np.repeat(lengths > 1, lengths)]] = True
        return seen

    def find(self, key: bytes) -> bytes | None:
        """The replacement of a key."""
        place = self.keys.tobytes().find(key)
        found = np.searchsorted(self.ends, place)
        if place < 0 or self.ends[found] != place or self.ends[found + 1] != place + len(key):
            return None
        return self.replacement(self.places[found])

    def growth(self) -> int:
        """Bytes that a byte of text becomes at most, a space counting as three."""
        if not len(self.places):
            return 3
        zeros = np.flatnonzero(self.values == 0)
        stops = zeros[np.searchsorted(zeros, self.places)]
        spaces = np.concatenate(([0], np.cumsum(self.values == ord(" "))))
        lengths = stops - self.places + 2 * (spaces[stops] - spaces[self.places])
        return max(3, int(np.max(-(-lengths // np.diff(self.ends)))))

    def folds_ascii(self) -> bool:
        """Whether texts of ASCII only become the same when A to Z are written small.

        It holds when each capital becomes what its small letter becomes, and no rule joins several
        ASCII characters. (With other characters it may not hold: h with a macron below is one
        character, H with one is two.)
        """
        single = self.single()
        same = all(
            single.get(bytes([letter])) == single.get(bytes([letter]).lower(), bytes([letter]).lower())
            for letter in _CAPITALS
        )
        lengths = np.diff(self.ends)
        ascii_only = np.logical_and.reduceat(self.keys < 0x80, self.ends[:-1]) if len(lengths) else np.zeros(0, bool)
        return same and not bool(np.any(ascii_only & (lengths > 1)))


@functools.lru_cache(maxsize=4)
def read_charsmap(blob: bytes) -> Charsmap:
    """The rules in a model's ``precompiled_charsmap``; raises ValueError when they are broken."""
    units, values = read_rules(blob)
    room = 1 << 19
    while True:
        # Memory that is not written is not taken from the system.
        keys, ends, places = np.empty(room * 16, np.uint8), np.zeros(room + 1, np.int64), np.empty(room, np.int64)
        count, total = _walk(units, keys, ends, places)
        if count < 0 or (count and places[:count].max() >= len(values)):
            raise ValueError("the rules of normalisation lead out of themselves")
        if count < room and total < len(keys):
            break
        room *= 2
    return Charsmap(units, values, keys[:total].copy(), ends[: count + 1].copy(), places[:count].copy())


@compiled
def child(units, node, byte):  # type: ignore[no-untyped-def]
    """The node under `byte`, -1 without one. A node is a place in `units`; 0 is the root."""
    unit = units[node]
    place = np.int64(node ^ np.int64((unit >> np.uint32(10)) << ((unit & np.uint32(0x200)) >> np.uint32(6)))) ^ byte
    if (units[place] & np.uint32(0x800000FF)) != np.uint32(byte):
        return np.int64(-1)
    return place


@compiled
def leaf(units, node):  # type: ignore[no-untyped-def]
    """Where the replacement of the key that ends at `node` starts, -1 when none ends there."""
    unit = units[node]
    if (unit >> np.uint32(8)) & np.uint32(1) == 0:
        return np.int64(-1)
    base = np.int64(node ^ np.int64((unit >> np.uint32(10)) << ((unit & np.uint32(0x200)) >> np.uint32(6))))
    return np.int64(units[base] & np.uint32(0x7FFFFFFF))


@compiled
def _walk(units, keys, ends, places):  # type: ignore[no-untyped-def]
    """Write all keys; their number and length, those of the arrays when they are full, -1 for a
    broken trie."""
    nodes, labels = np.zeros(_DEEPEST + 1, np.int64), np.zeros(_DEEPEST + 1, np.int64)
    count, total, depth = 0, 0, 0
    if not _inside(units, np.int64(0)):
        return -1, 0
    while depth >= 0:
        label = labels[depth]
        labels[depth] += 1
        if label == 256:
            depth -= 1
            continue
        node = child(units, nodes[depth], label)
        if node < 0:
            continue
        depth += 1
        if depth == _DEEPEST or not _inside(units, node):
            return -1, 0
        nodes[depth], labels[depth] = node, 0
        place = leaf(units, node)
        if place < 0:
            continue
        if count == len(places) or total + depth > len(keys):
            return len(places), len(keys)
        for step in range(depth):
            keys[total + step] = labels[step] - 1
        total += depth
        places[count], ends[count + 1] = place, total
        count += 1
    return count, total


@compiled
def _inside(units, node):  # type: ignore[no-untyped-def]
    """Whether all children of a node would lie in the trie."""
    unit = units[node]
    base = np.int64(node ^ np.int64((unit >> np.uint32(10)) << ((unit & np.uint32(0x200)) >> np.uint32(6))))
    return (base | 255) < len(units)
