"""Settings of the search methods, and a new method, which is one file."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mining import load_encoder, mine, search_neighbours
from mining.config.base import validate
from mining.config.search import SearchSettings
from mining.errors import UsageError
from mining.search import methods
from mining.search.exact import reference_neighbours
from mining.search.methods import METHODS
from tests.search.test_exact import same, unit_rows

BRUTE = '''
from pydantic import Field

from mining.search.methods import METHODS, Estimate, MethodSettings, SearchMethod


class BruteSettings(MethodSettings):
    passes: int = Field(default=1, gt=0)
    """How often everything is done, for no reason."""


class Brute(SearchMethod[BruteSettings]):
    help = "does all by hand"
    settings = BruteSettings

    def estimate(self, task, settings):
        return Estimate("brute", f"{settings.passes} passes", 1e6 * settings.passes, 1e9, 0.0, True)

    def search(self, source, target, k, settings, runtime):
        from mining.search.exact import reference_neighbours
        from mining.search.vectors import spread

        for _ in range(settings.passes):
            pairs = ((source, target), (target, source))
            found = [spread(reference_neighbours(a.vectors, b.vectors, k), a, b, k) for a, b in pairs]
        return found[0], found[1]


METHODS.register("brute")(Brute())
'''


@pytest.fixture
def brute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a search method that is nothing but one more file in the package."""
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "brute.py").write_text(BRUTE)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(folder)])
    yield "brute"
    sys.modules.pop("mining.search.methods.brute", None)
    METHODS._entries.pop("brute", None)


def test_a_new_method_is_one_file(brute, task, tiny_model, bitext, tmp_path):
    sides = ("--source", task.source, "--target", task.target, "--columns", "id,text", "--model", tiny_model)
    for method in ("exact", brute):
        more = ("--passes", "2") if method == brute else ()
        run = ("--method", method, *more, "--shard-rows", "150", "--output", tmp_path / method, "--quiet")
        ended = bitext("mine", *sides, *run)
        assert ended.code == 0, ended.err
    mined = [pq.read_table(tmp_path / method / "pairs.parquet") for method in ("exact", brute)]
    assert mined[0].equals(mined[1])
    text, ids = ([[row[i] for row in rows] for rows in (task.source_rows, task.target_rows)] for i in (1, 0))
    pairs = mine(*text, load_encoder(tiny_model), source_ids=ids[0], target_ids=ids[1], method=brute, passes=3)
    assert pairs.equals(mined[0])
    assert "--passes" in bitext("mine", "--help").out
    sizes = ("--source-rows", "1e6", "--target-rows", "1e6", "--dim", "300", "--json")
    listed = json.loads(bitext("plan", *sizes).out)["alternatives"]
    assert next(row for row in listed if row["method"] == brute)["detail"] == "1 passes"
    planned = json.loads(bitext("plan", *sizes, "--method", brute, "--passes", "4").out)
    assert planned["expected"]["seconds"] == 4e6
    refused = bitext("mine", *sides, "--output", tmp_path / "refused", "--passes", "4")
    assert "--passes is for --method brute, and the method is auto" in refused.err


@pytest.mark.parametrize("method", ["exact", "clusters", "faiss", "auto"])
def test_vectors_are_searched_by_every_method(method):
    source, target = unit_rows(60, 16, 1), unit_rows(300, 16, 2)
    settings = {"clusters": {"nlist": 3, "nprobe": 3}, "faiss": {"index": "Flat"}}.get(method, {})
    # Lengths do not matter, and rows of zeros have no neighbours.
    source[4] = 0
    forward, backward = search_neighbours(3 * source, target, k=5, method=method, threads=1, **settings)
    expected = reference_neighbours(np.delete(source, 4, axis=0), target, 5)
    assert np.array_equal(np.delete(forward.ids, 4, axis=0), expected.ids)
    assert forward.ids[4].tolist() == [-1] * 5
    assert 4 not in backward.ids
    again = search_neighbours(3 * source, target, k=5, method=method, **settings)
    assert same(again[0], forward)


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        (np.ones(3), {}, r"source: vectors of shape \(3,\)"),
        (np.ones((2, 4)), {}, "vectors of 4 and of 3 dimensions"),
        (np.array([[1, 1, 1], [1, np.nan, 1]]), {}, "source: row 1 is not finite"),
        (np.ones((2, 3)), {"method": "exakt"}, "unknown search method 'exakt': did you mean 'exact'"),
        (np.ones((2, 3)), {"nprob": 3}, "unknown key 'nprob': did you mean 'nprobe'"),
        (np.ones((2, 3)), {"method": "exact", "nprobe": 3}, "nprobe: is for method clusters or auto"),
    ],
)
def test_faulty_vectors_and_settings_are_named(source, settings, message):
    with pytest.raises(ValueError, match=message):
        search_neighbours(source, np.ones((2, 3)), k=1, **settings)


def test_settings_hold_the_keys_of_the_methods_that_may_be_used():
    assert SearchSettings(method="faiss").model_dump().keys() == {
        *("k", "method", "device", "index", "parameters", "refine_factor", "training_rows")
    }
    automatic = SearchSettings(nprobe=3)
    assert {"nlist", "nprobe", "backend"} <= automatic.model_dump().keys()
    assert automatic.of("clusters").nprobe == 3
    assert automatic.of("faiss").index == "IVF256,Flat"
    assert SearchSettings(**automatic.model_dump()) == automatic
    assert {"nlist", "index", "source_tile", "k"} <= set(SearchSettings.fields())


@pytest.mark.parametrize(
    ("given", "name", "key", "value"),
    [
        ({"clusters": 7}, "clusters", "nlist", 7),
        ({"nearest": 7}, "clusters", "nprobe", 7),
        ({"method": "faiss", "rescore": 12}, "faiss", "refine_factor", 4.0),
        ({"method": "faiss", "rescore": 0, "k": 10}, "faiss", "refine_factor", 1.0),
        ({"method": "faiss", "rescore": 5, "k": 2}, "faiss", "refine_factor", 3.5),
    ],
)
def test_names_of_before_are_read_with_a_note(given, name, key, value, caplog):
    with caplog.at_level(logging.WARNING):
        settings = validate(SearchSettings, given, "x")
    assert getattr(settings.of(name), key) == value
    assert f"is called '{key}' now" in caplog.text


def test_keys_of_methods_that_are_not_used_are_left_out(caplog):
    with caplog.at_level(logging.WARNING):
        settings = SearchSettings(method="exact", index="Flat", nprobe=10)
    assert settings == SearchSettings(method="exact")
    assert caplog.messages == ["search.index is for method faiss and is not looked at: the method is exact"]


@pytest.mark.parametrize("k", [1, 3, 4, 7, 100])
@pytest.mark.parametrize("more", [0, 1, 12, 4096])
def test_as_many_entries_are_proposed_as_before(k, more):
    assert SearchSettings(method="faiss", k=k, rescore=more).of("faiss").proposals(k) == k + more


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nprobe": 0}, "nprobe: Input should be greater than 0"),
        ({"method": "faiss", "refine_factor": 0.5}, "refine_factor: Input should be greater than or equal to 1"),
        ({"nprobe": True}, "nprobe: true is not what belongs here"),
        ({"backend": "tensorflow"}, "backend: Input should be 'torch' or 'faiss'"),
    ],
)
def test_faulty_settings_of_methods_are_named(given, message):
    with pytest.raises(UsageError, match=message):
        validate(SearchSettings, given, "x")
