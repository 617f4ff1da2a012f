"""Training data: bitexts filtered, split into tokens and laid out on disk as flat arrays."""

from __future__ import annotations

from mining.config.data import DataConfig, DomainRule, FilterSettings, PrepareConfig
from mining.training.data.overlap import Overlap, piece_overlap
from mining.training.data.prepare import identify, is_prepared, prepare
from mining.training.data.prepared import Domain, PreparedPairs, open_prepared

__all__ = [
    "DataConfig",
    "Domain",
    "DomainRule",
    "FilterSettings",
    "Overlap",
    "PrepareConfig",
    "PreparedPairs",
    "identify",
    "is_prepared",
    "open_prepared",
    "piece_overlap",
    "prepare",
]
