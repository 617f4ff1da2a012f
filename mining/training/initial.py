"""Word vectors to start from, such as GloVe or fastText in their text form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from mining.corpus.lines import numbered_lines
from mining.encoder.tokenizers import Tokenizer
from mining.errors import InputError, UsageError

_LONGEST_LINE = 100_000
_BLOCK_WORDS = 8192


def read_initial(path: str, unit: Tokenizer, table: torch.Tensor) -> int:
    """Put the vectors of the file at `path` into the rows of `table` (size, dim); returns how many
    rows were set.

    A line is a word, a space and its numbers; the first line may be a header of two numbers
    (word2vec's form). A word that is one unit of `unit` sets its row, the first of several with the
    same row counts; others are passed over. For a table with two rows a unit (languages apart) both
    are set. Raises UsageError when there is no such file or no word fits, InputError for a line of
    another length. Wieting et al. 2016, initialisation of PARAGRAM-PHRASE.
    """
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file of word vectors")
    found: dict[int, np.ndarray] = {}
    words: list[str] = []
    vectors: list[np.ndarray] = []

    def flush() -> None:
        pieces = unit(words)
        for place in np.flatnonzero(pieces.lengths == 1):
            row = int(pieces.ids[pieces.offsets[place]])
            if row != unit.unknown:
                found.setdefault(row, vectors[place])
        words.clear()
        vectors.clear()

    for number, line in numbered_lines(path, "strict", _LONGEST_LINE):
        fields = str(line).rstrip().split(" ")
        if number == 1 and len(fields) == 2:
            continue
        words.append(fields[0])
        vectors.append(_numbers(fields[1:], path, number, table.shape[1]))
        if len(words) == _BLOCK_WORDS:
            flush()
    flush()
    if not found:
        raise UsageError(f"{path}: none of its words is a unit of the vocabulary ({unit.kind})")
    rows = torch.tensor(sorted(found))
    values = torch.from_numpy(np.stack([found[int(row)] for row in rows]))
    for start in range(0, len(table), unit.size):
        table[rows + start] = values
    return len(found)


def _numbers(fields: list[str], path: str, number: int, dim: int) -> np.ndarray:
    try:
        vector = np.array(fields, np.float32)
    except ValueError:
        vector = np.empty(0, np.float32)
    if len(vector) != dim or not np.isfinite(vector).all():
        raise InputError(
            f"{path}, line {number}: not a word and {dim} numbers: vectors of another length need another --dim"
        )
    return vector
