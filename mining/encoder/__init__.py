"""Sentence encoders: load a model folder, encode texts, keep the vectors in files that name their
model.

The names below are imported when they are first used: settings and registries of this package are
needed for ``bitext --help``, torch is not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mining.encoder.encoder import SentenceEncoder
    from mining.encoder.load import load_encoder
    from mining.encoder.model_folder import save_model
    from mining.encoder.protocol import Encoder
    from mining.encoder.tokenizers import Tokenizer
    from mining.encoder.tokenizers.pieces import PieceTokenizer
    from mining.encoder.tokens import Tokens
    from mining.encoder.vector_file import Vectors, encode_corpus, read_vectors, write_vectors

_MODULES = {
    "Encoder": "protocol",
    "PieceTokenizer": "tokenizers.pieces",
    "SentenceEncoder": "encoder",
    "Tokenizer": "tokenizers",
    "Tokens": "tokens",
    "Vectors": "vector_file",
    "encode_corpus": "vector_file",
    "load_encoder": "load",
    "read_vectors": "vector_file",
    "save_model": "model_folder",
    "write_vectors": "vector_file",
}
__all__ = [
    "Encoder",
    "PieceTokenizer",
    "SentenceEncoder",
    "Tokenizer",
    "Tokens",
    "Vectors",
    "encode_corpus",
    "load_encoder",
    "read_vectors",
    "save_model",
    "write_vectors",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'mining.encoder' has no attribute '{name}'")
        return getattr(import_module(f"mining.encoder.{_MODULES[name]}"), name)
