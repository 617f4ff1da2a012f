"""Tokens of the P-SP models (Wieting et al. 2022), found as the code published with them does."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, cast

import numpy as np
import sentencepiece
from pydantic import Field, ValidationError

from mining.config.base import Settings
from mining.devices import resolve_threads
from mining.encoder.normaliser import check_model
from mining.encoder.tokenizers import TOKENIZERS, Tokenizer
from mining.encoder.tokenizers.pieces import PIECES_FILE, sentencepiece_processor
from mining.encoder.tokens import Tokens, check_each, check_texts
from mining.errors import UsageError

UNKNOWN = "UUUNKKK"
"""The entry of a vocabulary that stands for a text in which nothing is known."""
VOCABULARY_FILE = "vocabulary.json"
SECOND_VOCABULARY_FILE = "vocabulary.second.json"
_LEFT_OUT, _BY_STRING = -1, -2
BLOCK_TEXTS = 8192
"""Texts cut at a time: the piece strings of more are not held."""


class PspSettings(Settings):
    """How the code that was published with a P-SP model reads a text."""

    lookup: Literal["pieces", "ngrams", "ids"] = "pieces"
    """pieces: piece strings in the model's own vocabulary; ngrams: character n-grams of the pieces
    joined by spaces; ids: sentencepiece ids are the rows"""
    width: int = Field(default=0, ge=0)
    """characters of an n-gram"""
    lowercase: bool = True
    tokenizer: Literal["none", "treebank", "moses"] = "none"
    """what splits words before sentencepiece does"""
    drop_unknown: bool = True
    """``zero_unk``: leave out what the vocabulary lacks; False: it is one unknown token each"""
    drop_first_row: bool = False
    """the older code takes row 0 for a failed look-up"""


@TOKENIZERS.register("psp")
class PspTokenizer(Tokenizer):
    """Rows of the table of a P-SP model, as the code published with it finds them.

    With ``lookup`` "pieces" or "ngrams": lower case, words split, sentencepiece's piece *strings*
    joined by spaces, lower case once more (normalisation may bring capitals back), cut at white
    space or into n-grams, and looked up in the vocabulary saved with the model. Sentencepiece ids
    would not do: characters it does not know come out as they are and have rows of their own. With
    "ids": sentencepiece ids above 0. What is not found is left out or `unknown`; a text of which
    nothing is left is one `unknown`. Unlike there, a text without any piece has no ids. Wieting et
    al. 2022.

    A model with a vocabulary for each language has `second`; ``of_language`` gives the tokenizer of
    one of them.
    """

    kind = "released"

    def __init__(self, files: Mapping[str, bytes], settings: Mapping[str, object]) -> None:
        """`files` as the method returns them, `settings` of `PspSettings`.

        Raises ValueError with the reason when they do not fit, UsageError when the word splitter is
        not installed.
        """
        try:
            self._how = PspSettings.model_validate(settings)
        except ValidationError as error:
            raise ValueError(f"settings of a P-SP model: {error.errors()[0]['msg']}") from None
        self._files = {name: bytes(data) for name, data in files.items()}
        self._processor = _processor(self._files.get(PIECES_FILE))
        self._split = word_splitter(self._how.tokenizer)
        self.second: dict[str, int] | None = None
        if self._how.lookup == "ids":
            if self._processor is None:
                raise ValueError(f"ids without {PIECES_FILE}")
            self.rows: dict[str, int] = {}
            self.size, self.unknown = self._processor.get_piece_size(), 0
        else:
            self._read_vocabularies()
        self._direct = self._direct_rows()

    def _read_vocabularies(self) -> None:
        if self._how.lookup == "ngrams" and not self._how.width:
            raise ValueError("n-grams without a width")
        self.rows = _vocabulary(self._files, VOCABULARY_FILE)
        self.size, self.unknown = len(self.rows), self.rows[UNKNOWN]
        if SECOND_VOCABULARY_FILE in self._files:
            self.second = _vocabulary(self._files, SECOND_VOCABULARY_FILE)
            self.size = max(self.size, len(self.second))

    @classmethod
    def load(cls, files: Mapping[str, bytes], settings: Mapping[str, object]) -> PspTokenizer:
        """See `Tokenizer.load`."""
        return cls(files, settings)

    def settings(self) -> dict[str, object]:
        """The values of `PspSettings`."""
        return self._how.model_dump()

    def files(self) -> dict[str, bytes]:
        """The files of the model folder: the sentencepiece model and the vocabulary, a list of
        entries by row."""
        return dict(self._files)

    def names(self) -> list[str]:
        """The entry of each row of the (first) vocabulary."""
        if self._processor is not None and self._how.lookup == "ids":
            return [self._processor.id_to_piece(row) for row in range(self.size)]
        return sorted(self.rows, key=self.rows.__getitem__)

    def of_language(self, number: int) -> PspTokenizer:
        """See `Tokenizer.of_language`.

        Ids start at 0 in both; the second language's rows lie `size` further in the table.
        """
        if number == 0 or self.second is None:
            return self
        other = object.__new__(PspTokenizer)
        other.__dict__.update(self.__dict__)
        other.rows, other.unknown, other.second = self.second, self.second[UNKNOWN], None
        other._direct = other._direct_rows()
        return other

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """Rows of each text. A text of which sentencepiece makes no piece (an empty, a blank one)
        has none.

        Raises TypeError for a plain ``str`` or an element that is no ``str``. Lone surrogates are
        read as ``?``.
        """
        check_texts(texts)
        return Tokens.joined(
            [
                self._block(_prepared(texts, start, self._how, self._split), resolve_threads(threads))
                for start in range(0, len(texts), BLOCK_TEXTS)
            ]
        )

    def _block(self, texts: list[str], threads: int) -> Tokens:
        if self._processor is None:
            return Tokens.of(list(map(self._look_up, texts)))
        found = Tokens.of(self._processor.encode(texts, out_type=int, num_threads=threads))
        rows = self._direct[found.ids]
        by_string = np.unique(np.searchsorted(found.offsets, np.flatnonzero(rows == _BY_STRING), side="right") - 1)
        direct = Tokens(np.maximum(rows, _LEFT_OUT), found.offsets).known(_LEFT_OUT)
        direct.ids[direct.ids == _LEFT_OUT] = self.unknown
        if not len(by_string):
            return direct
        strings = self._processor.encode([texts[row] for row in by_string], out_type=str, num_threads=threads)
        others = Tokens.of([self._look_up(" ".join(one)) for one in strings])
        taken = np.arange(len(texts))
        taken[by_string] = len(texts) + np.arange(len(by_string))
        return Tokens.joined([direct, others]).take(taken)

    def _direct_rows(self) -> np.ndarray:
        """By sentencepiece id, (pieces,) int32: the row; `_LEFT_OUT`; or `_BY_STRING`, where only
        the string tells.

        A piece in lower case without white space is looked up as it stands whatever is around it.
        """
        if self._processor is None:
            return np.zeros(0, np.int32)
        numbers = range(self._processor.get_piece_size())
        if self._how.lookup == "ids":
            return np.array([number or _LEFT_OUT for number in numbers], np.int32)
        rows = np.full(len(numbers), _BY_STRING, np.int32)
        for number in numbers if self._how.lookup == "pieces" else ():
            piece = self._processor.id_to_piece(number)
            lowered = piece.lower() if self._how.lowercase else piece
            if number != self._processor.unk_id() and [lowered] == piece.split():
                found = self._look_up_all([piece])
                rows[number] = found[0] if found else _LEFT_OUT
        return rows

    def _look_up(self, text: str) -> list[int]:
        """Rows of the pieces of one text, joined by spaces."""
        # A piece may be in capitals although the text is not: sentencepiece turns modifier letters
        # into plain ones.
        text = (text.lower() if self._how.lowercase else text).strip()
        if not text:
            return []
        names = n_grams(text, self._how.width) if self._how.lookup == "ngrams" else text.split()
        return self._look_up_all(names) or [self.unknown]

    def _look_up_all(self, names: list[str]) -> list[int]:
        if self._how.drop_unknown:
            ids = [self.rows[name] for name in names if name in self.rows]
        else:
            ids = [self.rows.get(name, self.unknown) for name in names]
        return [row for row in ids if row] if self._how.drop_first_row else ids


def n_grams(text: str, width: int) -> list[str]:
    """Character n-grams of `text` with one space around it."""
    padded = f" {text} "
    return [padded[start : start + width] for start in range(len(padded) - width + 1)]


def vocabulary_bytes(names: Sequence[str]) -> bytes:
    """The vocabulary file of `names`, one for each row in order."""
    return json.dumps(list(names), ensure_ascii=False, indent=0).encode("utf-8", "surrogatepass") + b"\n"


class _Treebank(Protocol):
    def tokenize(self, text: str) -> list[str]: ...


class _Moses(Protocol):
    def tokenize(self, text: str, escape: bool) -> list[str]: ...


def word_splitter(name: str) -> Callable[[str], list[str]] | None:
    """The function that splits a text into words; raises UsageError when its package is not
    installed."""
    if name == "treebank":
        treebank = cast(_Treebank, _class("nltk.tokenize.treebank", "TreebankWordTokenizer", "nltk")())
        return treebank.tokenize
    if name == "moses":
        moses = cast(_Moses, _class("sacremoses", "MosesTokenizer", "sacremoses")(lang="en"))
        return lambda text: moses.tokenize(text, escape=False)
    return None


def _class(module: str, name: str, package: str) -> Callable[..., object]:
    try:
        found: Callable[..., object] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        raise UsageError(
            f"this P-SP model splits words with {package} before sentencepiece: pip install {package}"
        ) from None
    return found


def _processor(model: bytes | None) -> sentencepiece.SentencePieceProcessor | None:
    """The processor of the model as it is: the published code looks at every character."""
    if model is None:
        return None
    try:
        check_model(model)
        return sentencepiece_processor(model)
    except ValueError as error:
        raise ValueError(f"{PIECES_FILE}: truncated or not a sentencepiece model ({error})") from None


def _vocabulary(files: Mapping[str, bytes], name: str) -> dict[str, int]:
    try:
        names = json.loads(files[name])
    except KeyError:
        raise ValueError(f"{name} is missing") from None
    except ValueError as error:
        raise ValueError(f"{name}: truncated or not JSON ({error})") from None
    if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
        raise ValueError(f"{name}: not a list of texts")
    rows = {entry: row for row, entry in enumerate(names)}
    if len(rows) != len(names):
        raise ValueError(f"{name}: an entry stands in it twice")
    if UNKNOWN not in rows:
        raise ValueError(f"{name}: has no entry {UNKNOWN}")
    return rows


def _prepared(
    texts: Sequence[str], start: int, settings: PspSettings, split: Callable[[str], list[str]] | None
) -> list[str]:
    """The texts of a block, in lower case and split into words if so asked."""
    block = list(texts[start : start + BLOCK_TEXTS])
    check_each(block, start)
    # A lone surrogate cannot be written as UTF-8, which sentencepiece asks for.
    block = [text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8") for text in block]
    # Moses looks at capitals, so there the splitting comes first; the code of the older models
    # lowers first.
    if settings.lowercase and settings.tokenizer != "moses":
        block = [text.lower() for text in block]
    if split is not None:
        block = [" ".join(split(text)) for text in block]
    if settings.lowercase and settings.tokenizer == "moses":
        block = [text.lower() for text in block]
    return block
