from __future__ import annotations

import pytest

from mining.encoder import PieceTokenizer
from mining.errors import InputError
from mining.training.vocabulary import train_vocabulary

SENTENCES = [f"wort{number % 17} und silbe{number % 5} mehr{number}" for number in range(200)]


def test_the_same_sentences_give_the_same_bytes() -> None:
    first, again = (train_vocabulary(SENTENCES, 60, character_coverage=1.0, lowercase=True) for _ in range(2))
    assert first == again


def test_small_text_gives_a_small_vocabulary() -> None:
    model = train_vocabulary(SENTENCES[:5], 5000, character_coverage=1.0, lowercase=True)
    assert 8 < PieceTokenizer(model).size < 5000


def test_only_the_unknown_piece_is_special() -> None:
    tokenizer = PieceTokenizer(train_vocabulary(SENTENCES, 60, character_coverage=1.0, lowercase=True))
    assert tokenizer.unknown == 0
    assert 0 not in tokenizer(["wort3 und silbe1"]).ids


def test_case_is_kept_on_request() -> None:
    mixed = [*SENTENCES, *(text.upper() for text in SENTENCES)]
    tokenizer = PieceTokenizer(train_vocabulary(mixed, 80, character_coverage=1.0, lowercase=False))
    assert tokenizer(["wort3"]).ids.tolist() != tokenizer(["WORT3"]).ids.tolist()


def test_text_that_gives_no_vocabulary_is_explained() -> None:
    with pytest.raises(InputError, match="no vocabulary of 60 pieces could be learnt from 1 sentences"):
        train_vocabulary([" "], 60, character_coverage=1.0, lowercase=True)


def test_lone_surrogates_do_not_stop_it() -> None:
    train_vocabulary([*SENTENCES, "wort \ud800"], 60, character_coverage=1.0, lowercase=True)
