"""Units: what a text is cut into before an encoder looks up vectors."""

from __future__ import annotations

from mining.encoder.units.base import Unit
from mining.encoder.units.learn import learn_ngrams, learn_words
from mining.encoder.units.load import load_unit
from mining.encoder.units.ngrams import NgramUnit
from mining.encoder.units.words import WordUnit

__all__ = ["NgramUnit", "Unit", "WordUnit", "learn_ngrams", "learn_words", "load_unit"]
