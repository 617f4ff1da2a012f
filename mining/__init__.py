"""Bitext mining as a library: arrays and Arrow in, arrays and Arrow out, no engine.

`mine` finds the translations between two lists of sentences, `score_pairs` scores given pairs,
`search_neighbours` searches vectors, `evaluate_mining` measures against gold; `load_encoder` opens
the model that they need. The settings are those of the command line and of its YAML files. Each
name is imported from its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "BitextSpec",
    "CorpusSpec",
    "Gold",
    "MineConfig",
    "MiningTask",
    "ScoreConfig",
    "SearchSettings",
    "evaluate_mining",
    "load_encoder",
    "mine",
    "score_pairs",
    "search_neighbours",
]

if TYPE_CHECKING:
    from mining.api import mine, score_pairs
    from mining.config.corpus import BitextSpec, CorpusSpec
    from mining.config.mine import MineConfig
    from mining.config.score import ScoreConfig
    from mining.config.search import SearchSettings
    from mining.encoder import load_encoder
    from mining.evaluation import Gold, MiningTask, evaluate_mining
    from mining.search.memory import search_neighbours

_MODULES = {
    **dict.fromkeys(("BitextSpec", "CorpusSpec"), "config.corpus"),
    **dict.fromkeys(("Gold", "MiningTask", "evaluate_mining"), "evaluation"),
    **dict.fromkeys(("mine", "score_pairs"), "api"),
    "MineConfig": "config.mine",
    "ScoreConfig": "config.score",
    "SearchSettings": "config.search",
    "load_encoder": "encoder",
    "search_neighbours": "search.memory",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"mining.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'mining' has no attribute '{name}'")
