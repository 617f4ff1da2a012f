r"""Reading piles of sentences and bitexts: files, formats, row rules, exact duplicates.

>>> from pathlib import Path
>>> from mining.corpus import CorpusSpec, read_rows
>>> _ = Path("news.tsv").write_text("n1\tIt rains.\nn2\t\n")
>>> spec = CorpusSpec(path="news.tsv", columns=["id", "text"])
>>> [(row.id, row.texts, str(row.reason)) for row in read_rows(spec)]
[('n1', ('It rains.',), 'None'), ('n2', ('',), 'blank')]
"""

from __future__ import annotations

from mining.corpus.dedup import dedup_key, first_occurrence
from mining.corpus.inputs import list_inputs
from mining.corpus.reader import read_corpus, read_rows, read_tables
from mining.corpus.rows import Row, row_blocks
from mining.corpus.spec import BitextSpec, CorpusSpec, InputFile, RowRules

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
