"""Units from the files of a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mining.encoder.pieces import PIECES_FILE, PieceTokenizer
from mining.encoder.tokenizers.base import Tokenizer
from mining.encoder.tokenizers.ngrams import NGRAMS, SIZES, TRIGRAMS, NgramTokenizer
from mining.encoder.tokenizers.psp import PspTokenizer
from mining.encoder.tokenizers.words import WORDS_FILE, WordTokenizer

FILES = {
    "pieces": (PIECES_FILE,),
    "words": (WORDS_FILE,),
    TRIGRAMS: (f"{TRIGRAMS}.txt",),
    NGRAMS: (f"{NGRAMS}.txt",),
}
"""By kind, the files that `load_tokenizer` needs."""


def load_tokenizer(kind: str, files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Tokenizer:
    """The one that ``Tokenizer.files`` and ``Tokenizer.settings`` describe; ValueError gives the
    reason when unfit."""
    missing = [name for name in FILES.get(kind, ()) if name not in files]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    if kind == "pieces":
        try:
            return PieceTokenizer(files[PIECES_FILE])
        except ValueError as error:
            raise ValueError(f"{PIECES_FILE}: truncated or not a sentencepiece model ({error})") from None
    if kind == "words":
        return WordTokenizer.load(files[WORDS_FILE])
    if kind in SIZES:
        return NgramTokenizer.load(files[f"{kind}.txt"], kind, settings.get("sizes", SIZES[kind]))
    if kind == "released":
        return PspTokenizer(files, settings)
    raise ValueError(f"no units of kind '{kind}' are known")
