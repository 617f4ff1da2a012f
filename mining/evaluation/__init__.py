"""Measuring what was mined against what is known to be true."""

from mining.evaluation.bucc import BuccResult, evaluate_pairs
from mining.evaluation.folds import CrossValidation, cross_validate
from mining.evaluation.gold import Gold, check_known, read_gold
from mining.evaluation.threshold import BestThreshold, best_threshold, best_threshold_reference

__all__ = [
    "BestThreshold",
    "BuccResult",
    "CrossValidation",
    "Gold",
    "best_threshold",
    "best_threshold_reference",
    "check_known",
    "cross_validate",
    "evaluate_pairs",
    "read_gold",
]
