"""Training data: bitexts filtered, cut into tokens and laid out on disk as flat arrays.

The path of a pair: `read` (rows through the filters), `select` (duplicates, caps), `vocabulary`
(the tokenizers), `ids` (its tokens), `prepared` (the folder); `prepare` goes along it.
"""

from __future__ import annotations

from mining.config.data import DataConfig, DomainRule, PrepareConfig
from mining.filters import FilterSettings
from mining.training.data.prepare import PARTIAL_FOLDER, clear, identify, is_prepared, prepare
from mining.training.data.prepared import PREPARED_FILE, Domain, PreparedPairs, open_prepared
from mining.training.data.vocabulary import Overlap, token_overlap

__all__ = [
    "PARTIAL_FOLDER",
    "PREPARED_FILE",
    "DataConfig",
    "Domain",
    "DomainRule",
    "FilterSettings",
    "Overlap",
    "PrepareConfig",
    "PreparedPairs",
    "clear",
    "identify",
    "is_prepared",
    "open_prepared",
    "prepare",
    "token_overlap",
]
