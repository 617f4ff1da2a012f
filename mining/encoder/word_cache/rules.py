"""Whether a sentencepiece model may be applied word by word, and how its words are told apart.

With white space as the boundary of words and no piece across it, the pieces of a text are the
pieces of its words. That is a property of the model, so it is proved when a model is loaded: on
every piece and every rule of normalisation.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

from mining.encoder.proto import USER_DEFINED, ModelFacts, read_facts
from mining.encoder.word_cache.charsmap import Charsmap, read_charsmap

SPACE = 0x20
BOUNDARY = "\u2581".encode()
_BLANKS = b"\t\n\v\f\r"


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
