"""The shared sentencepiece vocabulary, the same bytes for the same sentences."""

from __future__ import annotations

import io

import sentencepiece

from mining.errors import InputError

_TRAINER_THREADS = 8
"""sentencepiece adds up its counts per thread: a fixed number gives the same vocabulary on every
machine."""
_MAX_BYTES = 4192


def train_vocabulary(sentences: list[str], size: int, *, character_coverage: float, lowercase: bool) -> bytes:
    """Learn a unigram sentencepiece model and return its file's bytes.

    The unknown piece has id 0; there are no other special pieces. A small text gives fewer than
    `size` pieces. Raises InputError when nothing can be learnt. Wieting et al. 2019, section 3 (one
    vocabulary for both languages).
    """
    model = io.BytesIO()
    texts = [text.encode("utf-8", "replace") for text in sentences]
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([text for text in texts if len(text) <= _MAX_BYTES] or texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
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
            f"no vocabulary of {size} pieces could be learnt from {len(sentences)} sentences ({cause}): "
            "give more text, or ask for another vocabulary size"
        ) from None
    return model.getvalue()
