"""Measuring mined pairs against gold, and encoders against test sets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mining.evaluation.bucc import BuccResult, evaluate_pairs
from mining.evaluation.gold import Gold, check_known, read_gold
from mining.evaluation.threshold import BestThreshold, CrossValidation, best_threshold, cross_validate

if TYPE_CHECKING:
    from mining.evaluation.mining import MarginResult, MiningTask, evaluate_mining, read_mining_task
    from mining.evaluation.sts import StsResult, StsSet, find_sts, read_sts, sts_correlations
    from mining.evaluation.tatoeba import TatoebaResult, find_aligned, read_aligned, tatoeba_error

__all__ = [
    "BestThreshold",
    "BuccResult",
    "CrossValidation",
    "Gold",
    "MarginResult",
    "MiningTask",
    "StsResult",
    "StsSet",
    "TatoebaResult",
    "best_threshold",
    "check_known",
    "cross_validate",
    "evaluate_mining",
    "evaluate_pairs",
    "find_aligned",
    "find_sts",
    "read_aligned",
    "read_gold",
    "read_mining_task",
    "read_sts",
    "sts_correlations",
    "tatoeba_error",
]

#: Where the names are that work on encoders. Comparing pairs with gold needs no torch.
_MODULES = {
    **dict.fromkeys(("MarginResult", "MiningTask", "evaluate_mining", "read_mining_task"), "mining"),
    **dict.fromkeys(("StsResult", "StsSet", "find_sts", "read_sts", "sts_correlations"), "sts"),
    **dict.fromkeys(("TatoebaResult", "find_aligned", "read_aligned", "tatoeba_error"), "tatoeba"),
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"mining.evaluation.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'mining.evaluation' has no attribute '{name}'")
