"""Measuring what was mined against what is known to be true, and encoders against test sets.

`mining.evaluation.mining_f1` has the function of that name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mining.evaluation.bucc import BuccResult, evaluate_pairs
from mining.evaluation.folds import CrossValidation, cross_validate
from mining.evaluation.gold import Gold, check_known, read_gold
from mining.evaluation.threshold import BestThreshold, best_threshold, best_threshold_reference

if TYPE_CHECKING:
    from mining.evaluation.sts import StsResult, StsSet, sts_correlations
    from mining.evaluation.tatoeba import TatoebaResult, tatoeba_error

__all__ = [
    "BestThreshold",
    "BuccResult",
    "CrossValidation",
    "Gold",
    "StsResult",
    "StsSet",
    "TatoebaResult",
    "best_threshold",
    "best_threshold_reference",
    "check_known",
    "cross_validate",
    "evaluate_pairs",
    "read_gold",
    "sts_correlations",
    "tatoeba_error",
]

_MODULES = {
    "StsResult": "sts",
    "StsSet": "sts",
    "TatoebaResult": "tatoeba",
    "sts_correlations": "sts",
    "tatoeba_error": "tatoeba",
}


def __getattr__(name: str) -> Any:
    """Import what works on encoders when it is first used: comparing pairs with gold needs no
    torch."""
    if name in _MODULES:
        return getattr(import_module(f"mining.evaluation.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'mining.evaluation' has no attribute '{name}'")
