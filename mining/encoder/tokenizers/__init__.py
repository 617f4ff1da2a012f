"""Tokenizers: what a text is cut into before an encoder looks up vectors.

Each module of this package is one tokenizer, registered under the module's name with the settings
it is learnt with, its files, loading and learning. So a new tokenizer is a new file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from mining.config.base import Settings
from mining.errors import UsageError
from mining.registry import Registry

if TYPE_CHECKING:
    from mining.encoder.tokens import Tokens

__all__ = [
    "NAMES_IN_FOLDERS",
    "TOKENIZERS",
    "LearningSettings",
    "Tokenizer",
    "learn_tokenizer",
    "load_tokenizer",
    "needed_file",
]

NAMES_IN_FOLDERS = {"psp": "released"}
"""`Tokenizer.kind` of the tokenizers where it is not the name in the registry."""


class LearningSettings(Settings):
    """What a tokenizer is learnt with; these keys stand beside those of the training data."""

    @abstractmethod
    def learn(self, sentences: Iterable[str]) -> Tokenizer:
        """Learn a vocabulary; raises InputError when the sentences give none."""


class Tokenizer(ABC):
    """Cuts texts into numbered tokens.

    One rule for all kinds: unknown tokens are left out, a text of unknown tokens only is one
    `unknown`, and a text without content has no ids.
    """

    kind: ClassVar[str]
    """its name in model folders and prepared folders: that of its table and of its arrays"""
    size: int
    """rows of the table: every type and the unknown token"""
    unknown: int
    """id of the unknown token"""
    learning: ClassVar[type[LearningSettings] | None] = None
    """what it is learnt with; None for a kind that is only loaded"""
    cut_in_training: ClassVar[bool] = False
    """whether training takes the first ``max_pieces`` tokens of a sentence only"""

    @classmethod
    @abstractmethod
    def load(cls, files: Mapping[str, bytes], settings: Mapping[str, object]) -> Tokenizer:
        """The one that `files` and `settings` describe; ValueError gives the reason when unfit."""

    @abstractmethod
    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Ids of `texts`. Raises TypeError for a plain ``str`` or an element that is no ``str``.

        Lone surrogates are read as ``?``. ``threads`` 0: all cores, where the kind can use them.
        """

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files that hold the vocabulary, by name."""

    def settings(self) -> dict[str, object]:
        """What `load` needs beside the files, as plain data."""
        return {}

    def of_language(self, number: int) -> Tokenizer:
        """The tokenizer of the first (0) or second (1) language of a model that keeps them
        apart."""
        return self


TOKENIZERS: Registry[type[Tokenizer]] = Registry("tokenizer", "mining.encoder.tokenizers")


def load_tokenizer(kind: str, files: Mapping[str, bytes], settings: Mapping[str, object]) -> Tokenizer:
    """The tokenizer that ``Tokenizer.kind``, ``files`` and ``settings`` describe.

    Raises ValueError with the reason when they do not fit, or when there is no such kind.
    """
    names = {name: entry for entry, name in NAMES_IN_FOLDERS.items()}
    return TOKENIZERS[names.get(kind, kind)].load(files, settings)


def learn_tokenizer(kind: str, sentences: Sequence[str], settings: Mapping[str, object]) -> Tokenizer:
    """Learn the vocabulary of one kind of tokens.

    `settings` may hold more keys than the kind looks at. Raises InputError when the sentences give
    no vocabulary, UsageError for a kind that cannot be learnt.
    """
    learning = TOKENIZERS[kind].learning
    if learning is None:
        raise UsageError(f"tokens: {kind} cannot be learnt: name a model that has them in vocabulary_from")
    own = {key: settings[key] for key in learning.fields() if key in settings}
    return learning.model_validate(own).learn(sentences)


def needed_file(files: Mapping[str, bytes], name: str) -> bytes:
    """The file of that name; raises ValueError when it is missing."""
    if name not in files:
        raise ValueError(f"{name} is missing")
    return files[name]
