"""Sentencepiece models with made-up rules of normalisation."""

from __future__ import annotations

import numpy as np

BLOCK, LEAF, HAS_LEAF = 256, 1 << 31, 1 << 8


def with_rules(model: bytes, blob: bytes) -> bytes:
    """The model file with other rules of normalisation: of a message that comes twice the later
    fields count."""
    inner = b"\x12" + varint(len(blob)) + blob
    return model + b"\x1a" + varint(len(inner)) + inner


def varint(value: int) -> bytes:
    """An integer in the form of protocol buffers."""
    low = value & 0x7F
    return bytes([low | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([low])


def blob(units: np.ndarray, values: bytes) -> bytes:
    """Rules as a model file keeps them."""
    return (4 * len(units)).to_bytes(4, "little") + units.astype("<u4").tobytes() + values


class Made:
    """A trie to be filled: each node has a block of its own children, the root block 1."""

    def __init__(self, blocks: int) -> None:
        self.units = np.full(BLOCK * (blocks + 1), LEAF, np.uint32)
        self.units[0] = BLOCK << 10

    def child(self, block: int, byte: str, below: int, *, ends: bool = False) -> None:
        """Under `byte` of the node with children in `block` a node with children in `below`."""
        place = (BLOCK * block) ^ ord(byte)
        self.units[place] = ord(byte) | ((place ^ (BLOCK * below)) << 10) | (HAS_LEAF if ends else 0)

    def leaf(self, block: int, start: int) -> None:
        """The node with children in `block` ends a key, whose replacement begins at `start`."""
        self.units[BLOCK * block] = LEAF | start


def circle() -> bytes:
    """a, aa, aaa, ... are keys."""
    made = Made(1)
    made.child(1, "a", 1, ends=True)
    made.leaf(1, 0)
    return blob(made.units, b"\0")


def fan() -> bytes:
    """No key at all, but 2 ** 30 ways to look for one."""
    made = Made(31)
    for block in range(1, 31):
        made.child(block, "a", block + 1)
        made.child(block, "b", block + 1)
    return blob(made.units, b"\0")


def long_key() -> bytes:
    """A key of 33 bytes."""
    made = Made(34)
    for block in range(1, 34):
        made.child(block, "a", block + 1, ends=block == 33)
    made.leaf(34, 0)
    return blob(made.units, b"\0")


def outside() -> bytes:
    """A node whose children lie beyond the trie."""
    made = Made(1)
    made.child(1, "a", 2)
    return blob(made.units, b"\0")


def no_replacement() -> bytes:
    """A key whose replacement lies beyond them all."""
    made = Made(2)
    made.child(1, "a", 2, ends=True)
    made.leaf(2, 5)
    return blob(made.units, b"abc\0")


def growing(size: int) -> bytes:
    """a becomes `size` bytes."""
    made = Made(2)
    made.child(1, "a", 2, ends=True)
    made.leaf(2, 0)
    return blob(made.units, b"b" * size + b"\0")
