"""A sentencepiece model's rules of normalisation: checked before anything follows them, and what is
unseen left out.

The rules are a double-array trie of keys and the replacements behind it (see `word_cache.proof`).
Sentencepiece follows them without looking where they lead, so a file made for it reads beyond its
memory or goes in circles for ever.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mining.encoder.proto import fields, parts_of
from mining.unseen import UNSEEN, UNSEEN_BYTES

LONGEST_KEY = 32
"""Bytes of a key; sentencepiece has room for so many matches at one position of a text. The longest
known has 12."""
LONGEST_REPLACEMENT = 256
"""Bytes that a key becomes at most; the longest known are 33."""
MOST_KEYS = 1 << 22
"""Ways through the trie; the rules that come with sentencepiece have some 230,000."""
_MOST_UNITS = (1 << 21) - (1 << 16)
"""Offsets of a trie reach so far, with room for what is added."""
_Keys: TypeAlias = "dict[int, _Keys]"
"""By byte what may follow it; nothing where a key ends."""
_BLOCK = 256
_BYTES = np.arange(_BLOCK)
LEAF, HAS_LEAF, _NO_CHILD = np.uint32(1 << 31), np.uint32(1 << 8), np.uint32(1 << 31)


def applied_model(model: bytes) -> bytes:
    """The model file as texts are cut with it: its rules of normalisation leave out the characters
    of `unseen` too.

    What is not needed for cutting (tests of its own, the way back to a text) is not there. Raises
    ValueError when the file is no sentencepiece model or its rules lead out of themselves, in
    circles or to endless replacements.
    """
    kept, blob = _kept_and_rules(model)
    blob = without_unseen_rules(blob)
    # A message that comes twice in a file is merged: the later rules take the place of the earlier
    # ones.
    inner = b"\x12" + _varint(len(blob)) + blob
    return kept + b"\x1a" + _varint(len(inner)) + inner


def check_model(model: bytes) -> None:
    """Raise ValueError where `applied_model` would."""
    read_rules(_kept_and_rules(model)[1])


def _kept_and_rules(model: bytes) -> tuple[bytes, bytes]:
    """The parts of a model file that texts are cut by, and its rules of normalisation."""
    kept, messages = parts_of(model)
    blob: object = b""
    for message in messages:
        blob = dict(fields(message)).get(2, blob)
    if not isinstance(blob, bytes):
        raise ValueError("a field of another type than expected")
    return kept, blob


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_rules(blob: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The trie, (u,) uint32, and the replacements, (b,) uint8, of rules; both without any key when
    there are none.

    Raises ValueError when they are cut short, lead out of themselves or in circles.
    """
    if not blob:
        units = np.full(_BLOCK, _NO_CHILD, np.uint32)
        units[0] = 1 << 10
        return units, np.zeros(1, np.uint8)
    size = int.from_bytes(blob[:4], "little")
    if size % (4 * _BLOCK) or not 0 < size < len(blob) - 4 or blob[-1]:
        raise ValueError("the rules of normalisation are cut short")
    units = np.frombuffer(blob, "<u4", size // 4, 4).astype(np.uint32)
    values = np.frombuffer(blob, np.uint8, offset=4 + size).copy()
    _check(units, values)
    return units, values


def child_bases(units: np.ndarray) -> np.ndarray:
    """(u,) int64: where the child of each unit under byte 0 lies; under byte b it is ``base ^
    b``."""
    wide = units.astype(np.int64)
    return np.arange(len(units)) ^ ((wide >> 10) << ((wide & 0x200) >> 6))


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _check(units: np.ndarray, values: np.ndarray) -> None:
    """Follow all keys at once, a byte at a time: `ways` counts the keys that begin with the path to
    a unit."""
    if len(units) > _MOST_UNITS:
        raise ValueError(f"the rules of normalisation have {len(units):,} places, more than {_MOST_UNITS:,}")
    bases = child_bases(units)
    children = np.flatnonzero(units < LEAF)
    parents = children ^ (units[children] & 0xFF).astype(np.int64)
    zeros = np.flatnonzero(values == 0)
    nodes, ways, total = np.zeros(1, np.int64), np.ones(1), 1.0
    for _ in range(LONGEST_KEY + 1):
        if (bases[nodes] | 0xFF).max() >= len(units):
            raise ValueError("the rules of normalisation lead out of themselves")
        _check_replacements(units[bases[nodes[(units[nodes] & HAS_LEAF) != 0]]], zeros)
        below = np.bincount(bases[nodes], ways, len(units))[parents]
        nodes, ways = children[below > 0], below[below > 0]
        total += float(ways.sum())
        if not len(nodes):
            return
        if total > MOST_KEYS:
            raise ValueError(f"the rules of normalisation have more than {MOST_KEYS:,} keys")
    raise ValueError(f"the rules of normalisation go in circles, or have keys of more than {LONGEST_KEY} bytes")


def _check_replacements(leaves: np.ndarray, zeros: np.ndarray) -> None:
    """The replacements that units stand for end, and soon; `zeros` are where they end."""
    starts = (leaves & ~LEAF).astype(np.int64)
    if not len(starts):
        return
    if starts.max() > zeros[-1]:
        raise ValueError("the rules of normalisation lead out of themselves")
    if (zeros[np.searchsorted(zeros, starts)] - starts).max() > LONGEST_REPLACEMENT:
        raise ValueError(f"the rules of normalisation replace a text by more than {LONGEST_REPLACEMENT} bytes")


def without_unseen_rules(blob: bytes) -> bytes:
    """Rules that leave out the characters of `unseen` wherever `blob` does not match something
    longer.

    They are also taken out of its replacements. Raises ValueError like `read_rules`.
    """
    units, values = read_rules(blob)
    units, values = _cleaned(units, values)
    keys: _Keys = {}
    for character in UNSEEN:
        below = keys
        for byte in character.encode():
            below = below.setdefault(byte, {})
    editor = _Editor(units, empty=len(values) - 1)
    editor.merge(0, keys)
    units = editor.units[: editor.used]
    return (4 * len(units)).to_bytes(4, "little") + units.astype("<u4").tobytes() + values.tobytes()


def _cleaned(units: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same rules with replacements that hold nothing unseen; new ones stand behind the old."""
    data, units = values.tobytes(), units.copy()
    changed: dict[int, bytes] = {}
    leaves = np.flatnonzero(units >= LEAF)
    starts = (units[leaves] & ~LEAF).astype(np.int64)
    for found in UNSEEN_BYTES.finditer(data):
        first = data.rfind(b"\0", 0, found.start()) + 1
        for start in set(starts[(starts >= first) & (starts <= found.start())].tolist()):
            changed[start] = UNSEEN_BYTES.sub(b"", data[start : data.index(b"\0", start)])
    for start, replacement in sorted(changed.items()):
        units[leaves[starts == start]] = LEAF | np.uint32(len(data))
        data += replacement + b"\0"
    return units, np.frombuffer(data, np.uint8)


class _Editor:
    """Adds keys to a trie. Parts of it are shared by several keys, so what is changed is copied to
    a block of its own.

    A unit is a byte (bits 0 to 7), whether a key ends there (bit 8), and how far from it its
    children are.
    """

    def __init__(self, units: np.ndarray, empty: int) -> None:
        """`empty`: where in the replacements nothing stands."""
        self.units, self.used, self._empty = units.copy(), len(units), np.uint32(empty)
        self._ends = -1

    def merge(self, node: int, keys: _Keys) -> None:
        """Add `keys` (by byte what follows it, nothing where a key ends) below the unit `node`."""
        base = self._moved(node)
        for byte, below in keys.items():
            child = base ^ byte
            if self.units[child] & np.uint32(0x800000FF) != byte:
                self.units[child] = byte
                if not below:
                    self._point(child, self._end())
            elif not below:
                own = self._moved(child)
                self.units[own] = LEAF | self._empty
            if below:
                self.merge(child, below)
            else:
                self.units[child] |= HAS_LEAF

    def _moved(self, node: int) -> int:
        """Copy the children of a unit to a block of their own; where it starts."""
        unit, new = int(self.units[node]), self._block()
        old = (node ^ _offset(unit)) ^ _BYTES
        children = self.units[old]
        kept = np.flatnonzero((children & np.uint32(0x800000FF)) == _BYTES)
        for byte in kept.tolist():
            self.units[new + byte] = children[byte] & np.uint32(0x1FF)
            self._point(new + byte, int(old[byte]) ^ _offset(int(children[byte])))
        if unit & int(HAS_LEAF):
            self.units[new] = children[0]
        self._point(node, new)
        return new

    def _point(self, node: int, base: int) -> None:
        """Let the children of a unit lie at `base`."""
        self.units[node] = (self.units[node] & np.uint32(0x1FF)) | np.uint32((node ^ base) << 10)

    def _end(self) -> int:
        """The children of every key that ends with an added character: only its empty
        replacement."""
        if self._ends < 0:
            self._ends = self._block()
            self.units[self._ends] = LEAF | self._empty
        return self._ends

    def _block(self) -> int:
        """A free block, in which nothing is a child."""
        if self.used == len(self.units):
            self.units = np.append(self.units, np.full(64 * _BLOCK, _NO_CHILD, np.uint32))
        self.used += _BLOCK
        return self.used - _BLOCK
