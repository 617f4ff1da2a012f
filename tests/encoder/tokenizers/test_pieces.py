from __future__ import annotations

import pytest

from mining.encoder.tokenizers.pieces import PieceSettings, PieceTokenizer
from mining.errors import InputError
from tests.encoder.tokenizers.helpers import unpacked

SENTENCES = [f"wort{number % 17} und silbe{number % 5} mehr{number}" for number in range(200)]


def pieces(vocabulary: int, lowercase: bool = True) -> PieceSettings:
    return PieceSettings(vocabulary=vocabulary, character_coverage=1.0, lowercase=lowercase)


def test_the_same_sentences_give_the_same_bytes() -> None:
    first, again = (pieces(60).train(SENTENCES) for _ in range(2))
    assert first == again


def test_small_text_gives_a_small_vocabulary() -> None:
    model = pieces(5000).train(SENTENCES[:5])
    assert 8 < PieceTokenizer(model).size < 5000


def test_only_the_unknown_piece_is_special() -> None:
    tokenizer = PieceTokenizer(pieces(60).train(SENTENCES))
    assert tokenizer.unknown == 0
    assert 0 not in tokenizer(["wort3 und silbe1"]).ids


def test_case_is_kept_on_request() -> None:
    mixed = [*SENTENCES, *(text.upper() for text in SENTENCES)]
    tokenizer = PieceTokenizer(pieces(80, lowercase=False).train(mixed))
    assert tokenizer(["wort3"]).ids.tolist() != tokenizer(["WORT3"]).ids.tolist()


def test_text_that_gives_no_vocabulary_is_explained() -> None:
    with pytest.raises(InputError, match="no vocabulary of 60 pieces could be learnt from 1 sentences"):
        pieces(60).train([" "])


def test_lone_surrogates_do_not_stop_it() -> None:
    pieces(60).train([*SENTENCES, "wort \ud800"])


def test_unknown_pieces_are_left_out(tokenizer: PieceTokenizer) -> None:
    plain, mixed = unpacked(tokenizer(["bake lomi", "bake 漢字 lomi"]))
    assert tokenizer.unknown not in mixed
    assert [piece for piece in mixed if piece in plain] == plain


def test_text_of_unknown_pieces_only_is_one_unknown_piece(tokenizer: PieceTokenizer) -> None:
    assert unpacked(tokenizer(["漢字", "漢 字 漢", "bake", ""]))[:2] == [[tokenizer.unknown]] * 2


def test_texts_without_content_have_no_pieces(tokenizer: PieceTokenizer) -> None:
    assert unpacked(tokenizer(["", "   ", "\t\n"])) == [[], [], []]


def test_case_and_width_are_folded(tokenizer: PieceTokenizer) -> None:
    lower, upper, wide = unpacked(tokenizer(["bake", "BAKE", "\uff22\uff21\uff2b\uff25"]))
    assert lower == upper == wide


def test_lone_surrogate_is_read_as_a_question_mark(tokenizer: PieceTokenizer) -> None:
    broken, mark = unpacked(tokenizer(["bake \ud800", "bake ?"]))
    assert broken == mark


@pytest.mark.parametrize("texts", ["bake", b"bake"])
def test_one_text_in_place_of_a_list_is_refused(tokenizer: PieceTokenizer, texts: object) -> None:
    with pytest.raises(TypeError, match="sequence of texts"):
        tokenizer(texts)  # type: ignore[arg-type]


def test_element_that_is_no_text_is_named(tokenizer: PieceTokenizer) -> None:
    with pytest.raises(TypeError, match="text 1 is NoneType"):
        tokenizer(["bake", None])  # type: ignore[list-item]
