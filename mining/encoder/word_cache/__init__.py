"""Encoding at the speed of memory: words are looked up by their bytes, and rows added by compiled
code."""

from __future__ import annotations

from mining.encoder.word_cache.finder import WordPieces, word_pieces
from mining.encoder.word_cache.rules import word_rules
from mining.encoder.word_cache.table import WORD_MEMORY, WordStatistics

__all__ = ["WORD_MEMORY", "WordPieces", "WordStatistics", "word_pieces", "word_rules"]
