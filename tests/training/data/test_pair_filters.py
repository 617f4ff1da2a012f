from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mining.corpus import BitextSpec, Row
from mining.errors import InputError, UsageError
from mining.training.data import DataConfig, FilterSettings
from mining.training.data.filters import PairFilter

Pairs = list[tuple[str, ...]]
OFF = {"max_tokens": None, "duplicates": False, "equal_sides": False}


def reasons(pairs: Pairs, spec: dict[str, Any] | None = None, encoder: Any = None, **settings: Any) -> list[str | None]:
    rows = [Row(str(n), pair[:2], "a.tsv", n, None, pair[2:]) for n, pair in enumerate(pairs, 1)]
    bitext = BitextSpec.model_validate({"path": "a.tsv", **(spec or {})})
    return PairFilter(FilterSettings.model_validate({**OFF, **settings}), bitext, encoder).reasons(rows)


def test_everything_can_be_off() -> None:
    assert reasons([("a", "a"), ("a " * 500, "b")]) == [None, None]


def test_length() -> None:
    pairs: Pairs = [
        ("a b c", "x y z"),
        ("a b", "x y z"),
        ("a b c", "x y z w v"),
        ("你好世界再见", "x y z"),
        ("a b c", "你"),
    ]
    found = reasons(pairs, min_tokens=3, max_tokens=4)
    assert found == [None, "too_few_tokens", "too_many_tokens", None, "too_few_tokens"]


def test_ratio() -> None:
    pairs: Pairs = [("a", "x y"), ("a", "x y z"), ("a b c d e", "x y")]
    assert reasons(pairs, max_ratio=2) == [None, "length_ratio", "length_ratio"]


def test_equal_sides() -> None:
    assert reasons([("File", "file..."), ("File", "Datei")], equal_sides=True) == ["equal_sides", None]


def test_trigram_overlap() -> None:
    pairs: Pairs = [("a b c d", "a b c x"), ("a b c d", "a b c d e")]
    assert reasons(pairs, max_trigram_overlap=0.7) == [None, "trigram_overlap"]


def test_similarity_from_a_column() -> None:
    pairs: Pairs = [("a", "b", "0.39"), ("a", "b", "0.4"), ("a", "b", "1"), ("a", "b", "1.01")]
    found = reasons(pairs, {"score": "score"}, min_similarity=0.4, max_similarity=1.0)
    assert found == ["similarity", None, None, "similarity"]


@pytest.mark.parametrize("value", ["", "high", "nan"])
def test_similarity_that_is_no_number(value: str) -> None:
    pairs: Pairs = [("a", "b", "news", value)]
    columns = {"domain": "genre", "score": "cosine"}
    with pytest.raises(InputError, match=r"a\.tsv, line 1: .* in column 'cosine' is no number"):
        reasons(pairs, columns, min_similarity=0.4)
    assert reasons(pairs, {**columns, "on_bad_row": "skip"}, min_similarity=0.4) == ["bad_row"]


def test_similarity_from_a_model(tiny_model: Any) -> None:
    from mining.encoder import load_encoder

    encoder = load_encoder(tiny_model)
    pairs: Pairs = [("bada kefe", "bada kefe"), ("bada kefe logi", "bada kefe mipo"), ("bada kefe", "")]
    (one, other), valid = encoder.encode(["bada kefe logi", "bada kefe mipo"], threads=1)
    assert valid.all()
    cosine = float(one @ other)
    assert cosine < 1
    assert reasons(pairs, encoder=encoder, min_similarity=cosine - 1e-3) == [None, None, "similarity"]
    assert reasons(pairs, encoder=encoder, min_similarity=cosine + 1e-3) == [None, "similarity", "similarity"]


def test_language() -> None:
    pytest.importorskip("py3langid")
    english, german = "This sentence is written in plain English.", "Dieser Satz ist auf Deutsch geschrieben worden."
    pairs: Pairs = [(english, german), (german, english), (english, english), ("kurz", "short")]
    found = reasons(pairs, {"languages": ["en", "de-AT"]}, language_id=True)
    assert found == [None, "language", "language", None]
    with pytest.raises(UsageError, match="'xx' is not among the languages it knows"):
        reasons(pairs, {"languages": ["en", "xx"]}, language_id=True)


def test_language_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "py3langid", None)
    with pytest.raises(UsageError, match="pip install py3langid"):
        reasons([], {"languages": ["en", "de"]}, language_id=True)


def test_the_first_reason_is_the_one_counted() -> None:
    assert reasons([("a", "a")], min_tokens=3, equal_sides=True) == ["too_few_tokens"]


def test_paraphrases_stand_for_published_values(config: Callable[..., DataConfig]) -> None:
    spec = {"path": "a.tsv", "score": "score"}
    filters = config(spec, filters={"paraphrases": True, "max_tokens": 30, "min_similarity": None}).filters
    assert (filters.min_tokens, filters.max_tokens) == (5, 30)
    assert (filters.min_similarity, filters.max_similarity, filters.max_trigram_overlap) == (None, 1.0, 0.7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": {"min_tokens": 5, "max_tokens": 4}}, "min_tokens 5 is above max_tokens 4"),
        ({"filters": {"min_similarity": 0.9, "max_similarity": 0.4}}, "min_similarity 0.9 is above"),
        ({"filters": {"language_id": True}}, "needs languages: \\[CODE, CODE\\]"),
        ({"filters": {"paraphrases": True}}, "needs score: COLUMN"),
        ({"units": ["pieces", "pieces"]}, "name each kind once"),
        ({"min_pieces": 9, "max_pieces": 8}, "min_pieces 9 is above max_pieces 8"),
        ({"bitext": []}, "at least 1 item"),
        ({"bitext": {"path": "a.tsv", "languages": ["en", "a/b"]}}, "give two language codes"),
    ],
)
def test_settings_that_do_not_fit(config: Callable[..., DataConfig], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(settings.pop("bitext", "a.tsv"), **settings)


def test_bitext_as_path_paths_or_several(config: Callable[..., DataConfig]) -> None:
    assert [spec.paths for spec in config("a.tsv").bitext] == [["a.tsv"]]
    assert [spec.paths for spec in config(["a.txt", "b.txt"]).bitext] == [["a.txt", "b.txt"]]
    assert [spec.paths for spec in config(["a.txt", {"path": "b.txt"}]).bitext] == [["a.txt"], ["b.txt"]]
