from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.tokenizers import learn, learn_ngrams, learn_words
from mining.encoder.tokenizers.normalise import normalised
from mining.encoder.tokenizers.words import word_cutter
from mining.errors import InputError
from tests.encoder.tokenizers.test_ngrams import slow_ngrams

SENTENCES = st.lists(st.text(alphabet="abc漢 ,\n", max_size=12), min_size=1, max_size=12)


def most_frequent(names: list[str], size: int) -> list[str]:
    return [name for name, _ in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:size]]


@given(SENTENCES, st.integers(1, 9))
def test_words_are_the_most_frequent(sentences: list[str], size: int) -> None:
    words = [word for text in sentences for word in word_cutter()(normalised(text.replace("\n", " ")))]
    if words:
        assert learn_words(iter(sentences), size).types == most_frequent(words, size)


@given(SENTENCES, st.integers(1, 9), st.sampled_from([[3], [2, 3, 4]]))
def test_ngrams_are_the_most_frequent(sentences: list[str], size: int, sizes: list[int]) -> None:
    grams = [gram for text in sentences for gram in slow_ngrams(text, sizes)]
    if grams:
        unit = learn_ngrams(iter(sentences), sizes, size)
        assert unit.types == most_frequent(grams, size)
        assert unit.sizes == tuple(sizes)


@pytest.mark.parametrize("learner", [learn_words, lambda texts, size: learn_ngrams(texts, [3], size)])
def test_the_rarest_are_forgotten_when_there_are_too_many(learner: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "COUNTED_TYPES", 300)
    monkeypatch.setattr(learn, "_BATCH", 50)
    rare = [chr(0x4E00 + number) for number in range(2000)]
    often = ["aaa bbb ccc"] * 40
    sentences = [text for place in range(40) for text in (*rare[place * 50 : (place + 1) * 50], often[place])]
    found = learner(sentences, 3).types  # type: ignore[operator]
    assert len(found) == 3
    assert not any(character in rare for name in found for character in name)
    assert found == learner(sentences, 3).types  # type: ignore[operator]
    assert len(learner(sentences, 5000).types) < 1000  # type: ignore[operator]


@pytest.mark.parametrize("sentences", [[], ["", " \n"]])
def test_nothing_to_learn_from_is_an_error(sentences: list[str]) -> None:
    with pytest.raises(InputError, match="no words can be learnt"):
        learn_words(sentences)
    with pytest.raises(InputError, match="no character n-grams can be learnt"):
        learn_ngrams(sentences, [3])
