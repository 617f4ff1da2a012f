"""The proof that a sentencepiece model may be applied word by word, and how to tell words apart.

With white space as the boundary of words and no piece across it, the pieces of a text are the
pieces of its words. That is a property of the model, so it is proved when a model is loaded: on
every piece and every rule of normalisation (see `normaliser`).
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

from mining.encoder.normaliser import HAS_LEAF, LEAF, child_bases, read_rules
from mining.encoder.proto import USER_DEFINED, ModelFacts, read_facts

SPACE = 0x20
BOUNDARY = "\u2581".encode()
_BLANKS = b"\t\n\v\f\r"
_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Charsmap(NamedTuple):
    """A model's rules of normalisation: their trie, which compiled code walks, and its keys.

    At each position of a text the longest key that matches is replaced; where none does, one
    character is copied.
    """

    units: np.ndarray
    """(u,) uint32; without rules units that lead nowhere"""
    values: np.ndarray
    """(b,) uint8: the replacements, each ended by a zero"""
    keys: np.ndarray
    """(total,) uint8: all keys, end to end"""
    ends: np.ndarray
    """(k + 1,) int64: key i is ``keys[ends[i]:ends[i + 1]]``"""
    starts: np.ndarray
    """(k,) int64: where in `values` its replacement starts"""

    def replacement(self, start: int) -> bytes:
        """The replacement that starts there in `values`."""
        rest = self.values[start : start + 256].tobytes()
        return rest[: rest.index(b"\0")]

    def single(self) -> dict[bytes, bytes]:
        """The keys of one byte, with what stands for them."""
        found = np.flatnonzero(np.diff(self.ends) == 1)
        return {self.keys[self.ends[i] : self.ends[i] + 1].tobytes(): self.replacement(self.starts[i]) for i in found}

    def longer(self) -> np.ndarray:
        """(256,) bool: the bytes that occur in keys of two bytes and more."""
        lengths = np.diff(self.ends)
        seen = np.zeros(256, bool)
        seen[self.keys[np.repeat(lengths > 1, lengths)]] = True
        return seen

    def find(self, key: bytes) -> bytes | None:
        """The replacement of a key."""
        start = self.keys.tobytes().find(key)
        found = np.searchsorted(self.ends, start)
        if start < 0 or self.ends[found] != start or self.ends[found + 1] != start + len(key):
            return None
        return self.replacement(self.starts[found])

    def growth(self) -> int:
        """Bytes that a byte of text becomes at most, a space counting as three."""
        if not len(self.starts):
            return 3
        zeros = np.flatnonzero(self.values == 0)
        stops = zeros[np.searchsorted(zeros, self.starts)]
        spaces = np.concatenate(([0], np.cumsum(self.values == ord(" "))))
        lengths = stops - self.starts + 2 * (spaces[stops] - spaces[self.starts])
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
    """The rules in a model's ``precompiled_charsmap``; raises ValueError when they are broken.

    The keys come in the order of their lengths: all of them are followed at once, a byte at a time.
    """
    units, values = read_rules(blob)
    bases = child_bases(units)
    children = np.flatnonzero(units < LEAF)
    labels = (units[children] & 0xFF).astype(np.uint8)
    parents = children ^ labels
    order = np.argsort(parents, kind="stable")
    children, labels, parents = children[order], labels[order], parents[order]
    nodes, paths = np.zeros(1, np.int64), np.zeros((1, 0), np.uint8)
    keys, lengths, starts = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    while len(nodes):
        ended = (units[nodes] & HAS_LEAF) != 0
        keys.append(paths[ended].ravel())
        lengths.append(np.full(np.count_nonzero(ended), paths.shape[1]))
        starts.append((units[bases[nodes[ended]]] & ~LEAF).astype(np.int64))
        first, last = (np.searchsorted(parents, bases[nodes], side=side) for side in ("left", "right"))
        parent = np.repeat(np.arange(len(nodes)), last - first)
        steps = np.arange(len(parent)) - np.repeat(np.cumsum(last - first) - last, last - first)
        nodes, paths = children[steps], np.column_stack([paths[parent], labels[steps]])
    return Charsmap(units, values, *(np.concatenate(keys), np.cumsum(np.concatenate(lengths)), np.concatenate(starts)))


class WordRules(NamedTuple):
    """A model whose texts may be cut into words first."""

    facts: ModelFacts
    charsmap: Charsmap
    splits: np.ndarray
    """(256,) bool: the bytes that separate words"""
    folds: bool
    """whether words of ASCII only may be written small"""


@functools.lru_cache(maxsize=4)
def word_rules(model: bytes) -> WordRules | str:
    """The rules of a model file, or the reason why it cannot be applied word by word."""
    try:
        facts = read_facts(model)
        charsmap = read_charsmap(facts.charsmap)
    except ValueError as error:
        return f"its file cannot be read ({error})"
    splitting = _splitting(charsmap)
    reason = _reason(facts, charsmap, splitting)
    if reason is not None:
        return reason
    splits = np.zeros(256, bool)
    splits[list(splitting)] = True
    return WordRules(facts, charsmap, splits, charsmap.folds_ascii() and not facts.has_own_symbols)


def _reason(facts: ModelFacts, charsmap: Charsmap, splitting: bytes) -> str | None:
    """Why texts may not be cut at the bytes `splitting`, or None."""
    if facts.treat_whitespace_as_suffix:
        return "it puts the boundary of a word at its end"
    if not (facts.add_dummy_prefix and facts.remove_extra_whitespaces and facts.escape_whitespaces):
        return "it does not read white space as one boundary before each word"
    if SPACE not in splitting:
        return "its normalisation has rules across a space"
    beyond = re.compile(b"[" + re.escape(splitting) + b"]|(?<!^)" + BOUNDARY)
    for piece in facts.pieces:
        # What the user defined is found in the text before normalisation.
        if beyond.search(piece.text) or (piece.kind == USER_DEFINED and BOUNDARY in piece.text):
            return f"its piece '{piece.text.decode('utf-8', 'replace')}' goes beyond a word"
    # In the text, the character that stands for a boundary must be no more than white space.
    inside = charsmap.keys.tobytes().count(BOUNDARY) != 1 or BOUNDARY in charsmap.values.tobytes()
    if inside or charsmap.find(BOUNDARY) != b" ":
        return "it takes the character U+2581 of a text for a boundary"
    return None


def _splitting(charsmap: Charsmap) -> bytes:
    """The bytes that always stand for a space and are part of no longer rule."""
    longer, single = charsmap.longer(), charsmap.single()
    found = [byte for byte in _BLANKS if single.get(bytes([byte])) == b" "]
    if single.get(b" ", b" ") == b" ":
        found.append(SPACE)
    return bytes(byte for byte in found if not longer[byte])
