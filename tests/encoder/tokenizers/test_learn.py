from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder.tokenizers import LearningSettings, _types
from mining.encoder.tokenizers._types import normalised
from mining.encoder.tokenizers.ngrams import NgramSettings
from mining.encoder.tokenizers.trigrams import TrigramSettings
from mining.encoder.tokenizers.words import WordSettings, word_cutter
from mining.errors import InputError
from tests.encoder.tokenizers.test_ngrams import slow_ngrams

SENTENCES = st.lists(st.text(alphabet="abc漢 ,\n", max_size=12), min_size=1, max_size=12)


def most_frequent(names: list[str], size: int) -> list[str]:
    return [name for name, _ in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:size]]


@given(SENTENCES, st.integers(1, 9))
def test_words_are_the_most_frequent(sentences: list[str], size: int) -> None:
    words = [word for text in sentences for word in word_cutter()(normalised(text.replace("\n", " ")))]
    if words:
        assert WordSettings(types=size).learn(iter(sentences)).types == most_frequent(words, size)


@given(SENTENCES, st.integers(1, 9), st.sampled_from([TrigramSettings, NgramSettings]))
def test_ngrams_are_the_most_frequent(sentences: list[str], size: int, settings: type[NgramSettings]) -> None:
    sizes = [3] if settings is TrigramSettings else [2, 3, 4]
    grams = [gram for text in sentences for gram in slow_ngrams(text, sizes)]
    if grams:
        learnt = settings(types=size).learn(iter(sentences))
        assert learnt.types == most_frequent(grams, size)
        assert learnt.sizes == tuple(sizes)


@pytest.mark.parametrize("settings", [WordSettings, TrigramSettings])
def test_the_rarest_are_forgotten_when_there_are_too_many(
    settings: type[WordSettings | TrigramSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_types, "COUNTED_TYPES", 300)
    monkeypatch.setattr(_types, "BATCH", 50)
    rare = [chr(0x4E00 + number) for number in range(2000)]
    often = ["aaa bbb ccc"] * 40
    sentences = [text for step in range(40) for text in (*rare[step * 50 : (step + 1) * 50], often[step])]
    found = settings(types=3).learn(sentences).types
    assert len(found) == 3
    assert not any(character in rare for name in found for character in name)
    assert found == settings(types=3).learn(sentences).types
    assert len(settings(types=5000).learn(sentences).types) < 1000


@pytest.mark.parametrize("sentences", [[], ["", " \n"]])
@pytest.mark.parametrize(("settings", "kind"), [(WordSettings(), "words"), (TrigramSettings(), "character n-grams")])
def test_nothing_to_learn_from_is_an_error(settings: LearningSettings, kind: str, sentences: list[str]) -> None:
    with pytest.raises(InputError, match=f"no {kind} can be learnt"):
        settings.learn(sentences)
