"""Encoding at the speed of memory: words are looked up by their bytes, not cut into pieces."""

from __future__ import annotations

from mining.encoder.word_cache.proof import word_rules
from mining.encoder.word_cache.table import CachedPieces, WordStatistics

__all__ = ["CachedPieces", "WordStatistics", "word_rules"]
