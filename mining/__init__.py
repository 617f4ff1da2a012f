"""Bitext mining as a library: arrays and Arrow in, arrays and Arrow out, no engine.

`mine` finds the translations between two lists of sentences; `load_encoder` opens the model that it
needs; `search_neighbours` finds the nearest vectors of two sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["load_encoder", "mine", "search_neighbours"]

if TYPE_CHECKING:
    from mining.api import mine
    from mining.encoder import load_encoder
    from mining.search.memory import search_neighbours


def __getattr__(name: str) -> Any:
    """Import the heavy parts when they are first used, so that ``bitext --help`` answers at
    once."""
    if name == "mine":
        from mining.api import mine

        return mine
    if name == "load_encoder":
        from mining.encoder import load_encoder

        return load_encoder
    if name == "search_neighbours":
        from mining.search.memory import search_neighbours

        return search_neighbours
    raise AttributeError(f"module 'mining' has no attribute '{name}'")
