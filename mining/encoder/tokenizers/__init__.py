"""Units: what a text is cut into before an encoder looks up vectors."""

from __future__ import annotations

from mining.encoder.tokenizers.base import Tokenizer
from mining.encoder.tokenizers.learn import learn_ngrams, learn_words
from mining.encoder.tokenizers.load import load_tokenizer
from mining.encoder.tokenizers.ngrams import NgramTokenizer
from mining.encoder.tokenizers.words import WordTokenizer

__all__ = ["NgramTokenizer", "Tokenizer", "WordTokenizer", "learn_ngrams", "learn_words", "load_tokenizer"]
