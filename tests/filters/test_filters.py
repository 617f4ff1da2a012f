from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mining.config.corpus import BitextSpec
from mining.config.data import DataConfig
from mining.corpus import Row
from mining.corpus.rows import TableForm
from mining.errors import InputError, UsageError
from mining.filters import FILTERS, FilterSettings, PairBatch, judge, reasons

Pairs = list[tuple[str, ...]]
OFF = {"max_tokens": None, "duplicates": False, "equal_sides": False}


def batch(pairs: Pairs, **spec: Any) -> PairBatch:
    bitext = BitextSpec.model_validate({"path": "a.tsv", **spec})
    rows = [Row(str(n), pair[:2], "a.tsv", n, None, pair[2:]) for n, pair in enumerate(pairs, 1)]
    return PairBatch(TableForm(bitext).table(rows), bitext, threads=1)


def judged(pairs: Pairs, spec: dict[str, Any] | None = None, **settings: Any) -> list[str | None]:
    rows = batch(pairs, **(spec or {}))
    filters = FilterSettings.model_validate({**OFF, **settings}).active()
    for one in filters:
        one.begin(rows.spec)
    return judge(rows, filters).tolist()


def config(bitext: Any, **settings: Any) -> DataConfig:
    return DataConfig.model_validate({"bitext": bitext, **settings})


def test_everything_can_be_off() -> None:
    assert judged([("a", "a"), ("a " * 500, "b")]) == [None, None]


def test_length() -> None:
    pairs: Pairs = [
        ("a b c", "x y z"),
        ("a b", "x y z"),
        ("a b c", "x y z w v"),
        ("你好世界再见", "x y z"),
        ("a b c", "你"),
    ]
    found = judged(pairs, min_tokens=3, max_tokens=4)
    assert found == [None, "too_few_tokens", "too_many_tokens", None, "too_few_tokens"]


def test_ratio() -> None:
    pairs: Pairs = [("a", "x y"), ("a", "x y z"), ("a b c d e", "x y")]
    assert judged(pairs, max_ratio=2) == [None, "length_ratio", "length_ratio"]


def test_equal_sides() -> None:
    assert judged([("File", "file..."), ("File", "Datei")], equal_sides=True) == ["equal_sides", None]


def test_trigram_overlap() -> None:
    pairs: Pairs = [("a b c d", "a b c x"), ("a b c d", "a b c d e")]
    assert judged(pairs, max_trigram_overlap=0.7) == [None, "trigram_overlap"]


def test_similarity_from_a_column() -> None:
    pairs: Pairs = [("a", "b", "0.39"), ("a", "b", "0.4"), ("a", "b", "1"), ("a", "b", "1.01")]
    found = judged(pairs, {"score": "score"}, min_similarity=0.4, max_similarity=1.0)
    assert found == ["similarity", None, None, "similarity"]


@pytest.mark.parametrize("value", ["", "high", "nan"])
def test_similarity_that_is_no_number(value: str) -> None:
    pairs: Pairs = [("a", "b", "news", value)]
    columns = {"domain": "genre", "score": "cosine"}
    with pytest.raises(InputError, match=r"a\.tsv, line 1: .* in column 'cosine' is no number"):
        judged(pairs, columns, min_similarity=0.4)
    assert judged(pairs, {**columns, "on_bad_row": "skip"}, min_similarity=0.4) == ["bad_row"]


def test_similarity_from_a_model(tiny_model: Any) -> None:
    from mining.encoder import load_encoder

    pairs: Pairs = [("bada kefe", "bada kefe"), ("bada kefe logi", "bada kefe mipo"), ("bada kefe", "")]
    (one, other), valid = load_encoder(tiny_model).encode(["bada kefe logi", "bada kefe mipo"], threads=1)
    assert valid.all()
    cosine = float(one @ other)
    assert cosine < 1
    model = {"similarity_model": str(tiny_model)}
    assert judged(pairs, **model, min_similarity=cosine - 1e-3) == [None, None, "similarity"]
    assert judged(pairs, **model, min_similarity=cosine + 1e-3) == [None, "similarity", "similarity"]


def test_language() -> None:
    pytest.importorskip("py3langid")
    english, german = "This sentence is written in plain English.", "Dieser Satz ist auf Deutsch geschrieben worden."
    pairs: Pairs = [(english, german), (german, english), (english, english), ("kurz", "short")]
    found = judged(pairs, {"languages": ["en", "de-AT"]}, language_id=True)
    assert found == [None, "language", "language", None]
    with pytest.raises(UsageError, match="'xx' is not among the languages it knows"):
        judged(pairs, {"languages": ["en", "xx"]}, language_id=True)


def test_language_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    import_module("mining.filters.language")._identifier.cache_clear()
    with pytest.raises(UsageError, match="pip install py3langid"):
        judged([], {"languages": ["en", "de"]}, language_id=True)


def test_the_first_reason_is_the_one_counted() -> None:
    assert judged([("a", "a")], min_tokens=3, equal_sides=True) == ["too_few_tokens"]


def test_paraphrases_stand_for_published_values() -> None:
    spec = {"path": "a.tsv", "score": "score"}
    filters = config(spec, filters={"paraphrases": True, "max_tokens": 30, "min_similarity": None}).filters.deciding()
    assert (filters["min_tokens"], filters["max_tokens"]) == (5, 30)
    assert (filters["min_similarity"], filters["max_similarity"], filters["max_trigram_overlap"]) == (None, 1.0, 0.7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": {"min_tokens": 5, "max_tokens": 4}}, "min_tokens 5 is above max_tokens 4"),
        ({"filters": {"min_similarity": 0.9, "max_similarity": 0.4}}, "min_similarity 0.9 is above"),
        ({"filters": {"language_id": True}}, "needs languages: \\[CODE, CODE\\]"),
        ({"filters": {"paraphrases": True}}, "needs score: COLUMN"),
        ({"tokens": ["pieces", "pieces"]}, "name each kind once"),
        ({"min_pieces": 9, "max_pieces": 8}, "min_pieces 9 is above max_pieces 8"),
        ({"bitext": []}, "at least 1 item"),
        ({"bitext": {"path": "a.tsv", "languages": ["en", "a/b"]}}, "give two language codes"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(settings.pop("bitext", "a.tsv"), **settings)


def test_bitext_as_path_paths_or_several() -> None:
    assert [spec.paths for spec in config("a.tsv").bitext] == [["a.tsv"]]
    assert [spec.paths for spec in config(["a.txt", "b.txt"]).bitext] == [["a.txt", "b.txt"]]
    assert [spec.paths for spec in config(["a.txt", {"path": "b.txt"}]).bitext] == [["a.txt"], ["b.txt"]]


def test_scores_do_not_depend_on_the_bounds_and_can_be_cut_again() -> None:
    pairs = batch([("a b c d", "a"), ("a b", "a"), ("a", "a")])
    loose, strict = (FILTERS["length_ratio"].model_validate({"max_ratio": ratio}) for ratio in (4, 2))
    scores = loose.score(pairs)
    assert scores.tolist() == strict.score(pairs).tolist() == [4, 2, 1]
    assert loose.keep(scores).tolist() == [True, True, True]
    assert strict.keep(scores).tolist() == [False, True, True]


def test_a_side_without_tokens_has_an_infinite_ratio() -> None:
    assert judged([("", "a")], max_ratio=1000) == ["length_ratio"]


WORDS = st.text(st.sampled_from("ab好 .A"), min_size=1, max_size=9)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=6), st.integers(1, 3), st.integers(1, 3), st.floats(1, 3))
def test_all_at_once_is_the_first_reason_of_each_pair_alone(pairs: Pairs, low: int, more: int, ratio: float) -> None:
    settings = {
        "min_tokens": low,
        "max_tokens": low + more,
        "max_ratio": ratio,
        "equal_sides": True,
        "max_trigram_overlap": 0.5,
    }
    filters = FilterSettings.model_validate(settings).active()

    def slow(pair: tuple[str, ...]) -> str | None:
        alone = batch([pair])
        return next((one.name() for one in filters if not one.keep(one.score(alone)).all()), None)

    assert judged(pairs, **settings) == [slow(pair) for pair in pairs]


def test_filters_run_in_the_order_of_their_cost() -> None:
    assert reasons() == [
        "too_few_tokens",
        "too_many_tokens",
        "length_ratio",
        "equal_sides",
        "trigram_overlap",
        "similarity",
        "language",
    ]


@pytest.mark.parametrize("name", FILTERS.names())
def test_every_filter_has_help_and_scores_a_batch_of_none(name: str) -> None:
    kind = FILTERS[name]
    assert kind.__doc__
    assert all(field.description for field in kind.fields().values())
    if name not in ("similarity", "language"):
        assert kind().score(batch([])).shape == (0,)


def test_faults_of_several_filters_are_told_together() -> None:
    faulty = {"min_tokens": 0, "max_ratio": 0.5, "duplicates": "?", "max_lenght": 3}
    with pytest.raises(ValidationError) as caught:
        FilterSettings.model_validate(faulty)
    assert {error["loc"][0] for error in caught.value.errors()} == set(faulty)


def test_only_what_is_set_of_a_new_filter_tells_prepared_pairs_apart(new_filter: None) -> None:
    assert "max_digits" not in FilterSettings().deciding()
    assert FilterSettings.model_validate({"max_digits": 2}).deciding()["max_digits"] == 2
    assert np.isinf(FILTERS["max_digits"].model_validate({"max_digits": 2}).bounds()[0])  # type: ignore[index]
