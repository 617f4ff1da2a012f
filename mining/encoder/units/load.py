"""Units from the files of a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mining.encoder.pieces import PIECES_FILE, PieceTokenizer
from mining.encoder.units.base import Unit
from mining.encoder.units.ngrams import NGRAMS, SIZES, TRIGRAMS, NgramUnit
from mining.encoder.units.released import ReleasedUnit
from mining.encoder.units.words import WORDS_FILE, WordUnit

FILES = {
    "pieces": (PIECES_FILE,),
    "words": (WORDS_FILE,),
    TRIGRAMS: (f"{TRIGRAMS}.txt",),
    NGRAMS: (f"{NGRAMS}.txt",),
}
"""By kind, the files that `load_unit` needs."""


def load_unit(kind: str, files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Unit:
    """The unit that ``Unit.files`` and ``Unit.settings`` describe; raises ValueError with the reason when unfit."""
    missing = [name for name in FILES.get(kind, ()) if name not in files]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    if kind == "pieces":
        try:
            return PieceTokenizer(files[PIECES_FILE])
        except ValueError as error:
            raise ValueError(f"{PIECES_FILE}: truncated or not a sentencepiece model ({error})") from None
    if kind == "words":
        return WordUnit.load(files[WORDS_FILE])
    if kind in SIZES:
        return NgramUnit.load(files[f"{kind}.txt"], kind, settings.get("sizes", SIZES[kind]))
    if kind == "released":
        return ReleasedUnit(files, settings)
    raise ValueError(f"no units of kind '{kind}' are known")
