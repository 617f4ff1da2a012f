"""Sentence encoders: load a model folder, encode texts, keep the vectors in files that name their
model."""

from __future__ import annotations

from mining.encoder.corpus_vectors import EncodeConfig, encode_corpus
from mining.encoder.encoder import SentenceEncoder
from mining.encoder.load import load_encoder
from mining.encoder.model_folder import save_model
from mining.encoder.pieces import PieceTokenizer, Tokens
from mining.encoder.protocol import Encoder
from mining.encoder.tokenizers import Tokenizer, learn_ngrams, learn_words
from mining.encoder.vector_file import Vectors, read_vectors, write_vectors

__all__ = [
    "EncodeConfig",
    "Encoder",
    "PieceTokenizer",
    "SentenceEncoder",
    "Tokenizer",
    "Tokens",
    "Vectors",
    "encode_corpus",
    "learn_ngrams",
    "learn_words",
    "load_encoder",
    "read_vectors",
    "save_model",
    "write_vectors",
]
