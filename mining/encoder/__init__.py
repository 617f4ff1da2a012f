"""Sentence encoders: load a model folder, encode texts, keep the vectors in files that name their model."""

from __future__ import annotations

from mining.encoder.base import Encoder
from mining.encoder.corpus_vectors import EncodeConfig, encode_corpus
from mining.encoder.model_folder import load_encoder, save_model
from mining.encoder.pieces import Pieces, PieceTokenizer
from mining.encoder.sp import SpEncoder
from mining.encoder.vector_file import Vectors, read_vectors, write_vectors

__all__ = [
    "EncodeConfig",
    "Encoder",
    "PieceTokenizer",
    "Pieces",
    "SpEncoder",
    "Vectors",
    "encode_corpus",
    "load_encoder",
    "read_vectors",
    "save_model",
    "write_vectors",
]
