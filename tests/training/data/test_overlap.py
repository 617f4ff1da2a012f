from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mining.training.data import PreparedPairs, token_overlap, vocabulary

Table = Callable[..., dict[str, Any]]
Prepared = Callable[..., PreparedPairs]


@pytest.mark.parametrize("block", [1, 1000])
def test_overlap_of_words(table: Table, prepared: Prepared, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(vocabulary, "_BLOCK_PAIRS", block)
    german = [("the taxi", "das taxi"), ("the old taxi taxi", "das alte taxi"), ("the end", "das ende")]
    russian = [("the taxi", "такси"), ("the end", "конец")]
    specs = [
        table([{"source": one, "target": other} for one, other in pairs], f"{code}.tsv", languages=["en", code])
        for code, pairs in (("de", german), ("ru", russian))
    ]
    first, second = token_overlap(prepared(specs, units="words"))
    assert (first.languages, first.tokens, first.pairs) == ("en-de", "words", 3)
    assert (first.source_types, first.target_types, first.shared_types) == (4, 4, 1)
    assert first.source_share == first.target_share == 1 / 4
    assert first.source_tokens_shared == 3 / 8
    assert first.target_tokens_shared == 2 / 7
    assert (second.languages, second.pairs, second.shared_types, second.source_share) == ("en-ru", 2, 0, 0.0)


def test_without_languages_all_is_one(table: Table, prepared: Prepared) -> None:
    rows = [{"source": "a b", "target": "b c", "domain": name} for name in ("x", "y")]
    pairs = prepared(table(rows, domain="domain"), units=["words", "trigrams"], filters={"duplicates": False})
    found = token_overlap(pairs)
    assert [(item.languages, item.tokens, item.pairs) for item in found] == [
        ("all", "words", 2),
        ("all", "trigrams", 2),
    ]
    assert found[0].source_share == 0.5
