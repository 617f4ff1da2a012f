r"""Reading piles of sentences and bitexts: files, formats, row rules, exact duplicates.

>>> from pathlib import Path
>>> from mining.corpus import CorpusSpec, read_rows
>>> _ = Path("news.tsv").write_text("n1\tIt rains.\nn2\t\n")
>>> spec = CorpusSpec(path="news.tsv", columns=["id", "text"])
>>> [(row.id, row.texts, str(row.reason)) for row in read_rows(spec)]
[('n1', ('It rains.',), 'None'), ('n2', ('',), 'blank')]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mining.config.corpus import BitextSpec, CorpusSpec, RowRules
    from mining.corpus.dedup import dedup_key, first_occurrence
    from mining.corpus.inputs import InputFile, list_inputs, read_corpus, read_rows, read_tables
    from mining.corpus.rows import Row, row_blocks

__all__ = [
    "BitextSpec",
    "CorpusSpec",
    "InputFile",
    "Row",
    "RowRules",
    "dedup_key",
    "first_occurrence",
    "list_inputs",
    "read_corpus",
    "read_rows",
    "read_tables",
    "row_blocks",
]
_MODULES = {
    "mining.config.corpus": ("BitextSpec", "CorpusSpec", "RowRules"),
    "mining.corpus.dedup": ("dedup_key", "first_occurrence"),
    "mining.corpus.inputs": ("InputFile", "list_inputs", "read_corpus", "read_rows", "read_tables"),
    "mining.corpus.rows": ("Row", "row_blocks"),
}


def __getattr__(name: str) -> object:
    """Import a part when it is first used: settings name formats, and must be cheap to import."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'mining.corpus' has no attribute '{name}'")
