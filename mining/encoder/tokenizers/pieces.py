"""Pieces of a sentencepiece model: learnt, loaded, and texts cut into them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import sentencepiece
from pydantic import Field

from mining.config.base import Flag
from mining.devices import resolve_threads
from mining.encoder.normaliser import applied_model
from mining.encoder.tokenizers import TOKENIZERS, LearningSettings, Tokenizer, needed_file
from mining.encoder.tokens import WORD_BOUNDARY, Tokens, check_each, check_texts
from mining.errors import InputError

PIECES_FILE = "sentencepiece.model"
_LONGEST_REASON = 200
_TRAINER_THREADS = 8
"""sentencepiece adds up its counts per thread: a fixed number gives the same vocabulary on every
machine."""
_MAX_BYTES = 4192


class PieceSettings(LearningSettings):
    """How a sentencepiece vocabulary is learnt, one for all languages."""

    vocabulary: Annotated[int, Flag(panel="Tokens")] = Field(default=20_000, ge=8)
    """Sentencepiece pieces, shared by all languages; a small bitext may give fewer."""
    character_coverage: float = Field(default=0.9999, gt=0, le=1)
    """Share of the characters that sentencepiece has pieces for."""
    lowercase: Annotated[bool, Flag("--lowercase/--keep-case")] = True
    """Fold case (and NFKC) inside sentencepiece; else NFKC only."""

    def learn(self, sentences: Iterable[str]) -> PieceTokenizer:
        """A unigram model; see `LearningSettings.learn`."""
        return PieceTokenizer(self.train(sentences))

    def train(self, sentences: Iterable[str]) -> bytes:
        """Learn a unigram sentencepiece model and return its file's bytes, the same for the same
        sentences.

        The unknown piece has id 0; there are no other special pieces. A small text gives fewer than
        `vocabulary` pieces. Raises InputError when nothing can be learnt. Wieting et al. 2019,
        section 3 (one vocabulary for both languages).
        """
        model = io.BytesIO()
        texts = [text.encode("utf-8", "replace") for text in sentences]
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter([text for text in texts if len(text) <= _MAX_BYTES] or texts),
                model_writer=model,
                model_type="unigram",
                vocab_size=self.vocabulary,
                hard_vocab_limit=False,
                character_coverage=self.character_coverage,
                normalization_rule_name="nmt_nfkc_cf" if self.lowercase else "nmt_nfkc",
                shuffle_input_sentence=False,
                num_threads=_TRAINER_THREADS,
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            cause = " ".join(str(error).split())
            raise InputError(
                f"no vocabulary of {self.vocabulary} pieces could be learnt from {len(texts)} sentences ({cause}): "
                "give more text, or ask for another vocabulary size"
            ) from None
        return model.getvalue()


def sentencepiece_processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a model file whose rules were looked at (`normaliser`); raises ValueError
    when it is none."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(" ".join(str(error).split())[:_LONGEST_REASON]) from None
    return processor


@TOKENIZERS.register("pieces")
class PieceTokenizer(Tokenizer):
    """A sentencepiece model with this project's rule for unknown pieces.

    Unknown pieces are left out; a text in which nothing is known is one unknown piece; a text
    without any piece stays empty. A bare word boundary counts as nothing: sentencepiece puts one
    before a word of unknown characters. Wieting et al. 2019, section 2 (encoders); the rule for
    unknown pieces is that of the published code.
    """

    kind = "pieces"
    learning = PieceSettings
    cut_in_training = True

    def __init__(self, model: bytes) -> None:
        """`model`: the bytes of a sentencepiece model file; raises ValueError with the reason when
        they are not one."""
        self.model = model
        self.applied = applied_model(model)
        """the model that texts are cut with: what is unseen is left out (`unseen`)"""
        self._processor = sentencepiece_processor(self.applied)
        self.size: int = self._processor.get_piece_size()
        self.unknown: int = self._processor.unk_id()
        boundary: int = self._processor.piece_to_id(WORD_BOUNDARY)
        self.boundary = boundary if boundary != self.unknown else -1

    @classmethod
    def load(cls, files: Mapping[str, bytes], settings: Mapping[str, object]) -> PieceTokenizer:
        """See `Tokenizer.load`."""
        model = needed_file(files, PIECES_FILE)
        try:
            return cls(model)
        except ValueError as error:
            raise ValueError(f"{PIECES_FILE}: truncated or not a sentencepiece model ({error})") from None

    def __call__(self, texts: Sequence[str], threads: int = 0) -> Tokens:
        """See `Tokenizer`."""
        check_texts(texts)
        check_each(texts)
        return self.all_pieces(list(texts), threads).known(self.unknown, self.boundary)

    def files(self) -> dict[str, bytes]:
        """``sentencepiece.model``."""
        return {PIECES_FILE: self.model}

    def all_pieces(self, texts: list[str] | list[bytes], threads: int = 0) -> Tokens:
        """The pieces of `texts` (or of their UTF-8) as sentencepiece finds them, every unknown one
        among them."""
        try:
            return Tokens.of(self._encode(texts, resolve_threads(threads)))
        except (TypeError, UnicodeEncodeError):
            # A lone surrogate cannot be written as UTF-8, and sentencepiece reports it as a wrong
            # type.
            whole = [text if isinstance(text, bytes) else text.encode("utf-8", "replace") for text in texts]
            return Tokens.of(self._encode(whole, resolve_threads(threads)))

    def _encode(self, texts: list[str] | list[bytes], threads: int) -> list[list[int]]:
        found: list[list[int]] = self._processor.encode(texts, out_type=int, num_threads=threads) if texts else []
        return found
