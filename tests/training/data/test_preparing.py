from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mining.errors import InputError, UsageError
from mining.training.data import DataConfig, PreparedPairs, open_prepared, prepare, read
from mining.training.data.prepare import PARTIAL_FOLDER
from tests.training.data.rows import made_up

Table = Callable[..., dict[str, Any]]
Prepared = Callable[..., PreparedPairs]
Config = Callable[..., DataConfig]

MANY = 24


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def mixed_rows() -> list[dict[str, Any]]:
    """Four domains, with something for each reason to drop."""
    rows = [{**row, "domain": ("news", "ui.a", "ui.b")[n % 3]} for n, row in enumerate(made_up(300))]
    rows += [rows[0], {**rows[1], "source": rows[1]["source"].upper()}]
    rows += [{"source": f"Same {n}", "target": f"same {n}.", "domain": "ui.a"} for n in range(4)]
    rows += [{"source": "", "target": "b", "domain": "news"}, {"source": "x " * 101, "target": "b", "domain": "news"}]
    return rows + [{"source": f"old{n} bad", "target": "dab", "domain": "old.x"} for n in range(5)]


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "pairs.jsonl", "pairs.parquet"])
def test_ids_are_those_of_the_texts(table: Table, prepared: Prepared, name: str) -> None:
    rows = made_up(120, domain="news")
    pairs = prepared(table(rows, name, domain="domain"), units=["pieces", "words", "trigrams"])
    assert pairs.kinds == ["pieces", "words", "trigrams"]
    for side, all_units in (("source", pairs.source), ("target", pairs.target)):
        for unit, found in zip(pairs.tokenizers, all_units, strict=True):
            expected = unit([row[side] for row in rows], 1)
            np.testing.assert_array_equal(found.ids, expected.ids)
            np.testing.assert_array_equal(found.offsets, expected.offsets)
    assert [(domain.name, domain.pairs) for domain in pairs.domains] == [("news", 120)]


def test_counts_add_up_and_rules_hold(table: Table, prepared: Prepared) -> None:
    rows = mixed_rows()
    rules = [{"match": "old.*", "drop": True}, {"match": "ui.*", "cap": 60, "weight": 0.5}, {"match": "blogs"}]
    pairs = prepared(table(rows, domain="domain"), domains=rules)
    assert pairs.dropped == {
        "blank": 1,
        "domain": 5,
        "too_many_tokens": 1,
        "equal_sides": 4,
        "duplicate": 2,
        "domain_cap": 80,
    }
    assert pairs.rows == len(rows) == len(pairs) + sum(pairs.dropped.values())
    found = {domain.name: (domain.pairs, domain.weight) for domain in pairs.domains}
    assert found == {"news": (100, 1.0), "ui.a": (60, 0.5), "ui.b": (60, 0.5), "old.x": (0, 1.0)}
    assert sum(sum(domain.dropped.values()) for domain in pairs.domains) == sum(pairs.dropped.values())
    assert np.bincount(pairs.domain, minlength=4).tolist() == [domain.pairs for domain in pairs.domains]
    (warning,) = pairs.warnings
    assert "no domain fits the pattern 'blogs'" in warning
    assert "news" in warning


def test_several_bitexts_with_several_languages(table: Table, prepared: Prepared) -> None:
    german = table(made_up(50, 1, genre="news"), "de.tsv.gz", domain="genre", languages=["en", "de"])
    french = table(made_up(40, 2), "fr.jsonl", languages=["en", "fr"])
    unnamed = table(made_up(30, 3, topic=""), "more.tsv", domain="topic")
    rules = [{"match": "en-fr/*", "cap": 10}, {"match": "news", "weight": 2}]
    pairs = prepared([german, french, unnamed], domains=rules)
    found = [(domain.name, domain.languages, domain.pairs, domain.weight) for domain in pairs.domains]
    assert found == [
        ("en-de/news", ("en", "de"), 50, 2.0),
        ("en-fr/fr", ("en", "fr"), 10, 1.0),
        ("none", None, 30, 1.0),
    ]
    assert pairs.domain.tolist() == [0] * 50 + [1] * 10 + [2] * 30


def test_groups_number_equal_texts_of_both_sides(table: Table, prepared: Prepared) -> None:
    texts = [("bad cab", "dig a hole"), ("cab bad", "BAD  Cab"), ("bad cab", "fade"), ("dig  a hole", "jade")]
    pairs = prepared(table([{"source": source, "target": target} for source, target in texts]))
    source, target = pairs.source_groups.tolist(), pairs.target_groups.tolist()
    assert source[0] == source[2] == target[1]
    assert source[3] == target[0]
    assert len({*source, *target}) == 5


def test_the_bytes_depend_neither_on_blocks_nor_on_threads(
    table: Table, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"match": "ui.*", "cap": 60, "weight": 0.5}]
    settings = config(table(mixed_rows(), domain="domain"), domains=rules, units=["pieces", "ngrams"])
    prepare(settings, tmp_path / "a", threads=1)
    monkeypatch.setattr(read, "BATCH_PAIRS", 7)
    prepare(settings, tmp_path / "b", threads=3)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


class Killed(BaseException):
    """Ends a run as a signal would: nothing catches it."""


@pytest.mark.parametrize("stage", ["reading", "vocabulary", "pieces"])
def test_a_killed_run_is_taken_up(table: Table, config: Config, tmp_path: Path, stage: str) -> None:
    settings = config(table(mixed_rows(), domain="domain"))
    prepare(settings, tmp_path / "whole", threads=1)
    seen: list[str] = []

    def kill(now: str, pairs: int) -> None:
        seen.append(now)
        if now == stage and (pairs or stage == "vocabulary"):
            raise Killed

    with pytest.raises(Killed):
        prepare(settings, tmp_path / "cut", kill, threads=1)
    with pytest.raises(UsageError, match="not a prepared folder"):
        open_prepared(tmp_path / "cut")
    again: list[str] = []
    prepare(settings, tmp_path / "cut", lambda now, pairs: again.append(now) if pairs else None, threads=1)
    assert ("reading" in again) == (stage == "reading")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_parts_of_other_settings_are_not_taken_up(table: Table, config: Config, tmp_path: Path) -> None:
    spec = table(mixed_rows(), domain="domain")

    def kill(stage: str, pairs: int) -> None:
        if stage == "pieces":
            raise Killed

    with pytest.raises(Killed):
        prepare(config(spec), tmp_path / "a", kill, threads=1)
    other = config(spec, filters={"min_tokens": 3})
    assert len(prepare(other, tmp_path / "a", threads=1)) == len(prepare(other, tmp_path / "b", threads=1))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_finished_folder_is_left_as_it_is(table: Table, config: Config, tmp_path: Path) -> None:
    spec = table(made_up(80))
    prepare(config(spec), tmp_path / "a", threads=1)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    moved = tmp_path / "elsewhere" / "pairs.tsv"
    moved.parent.mkdir()
    os.replace(spec["path"], moved)
    prepare(config({**spec, "path": str(moved)}), tmp_path / "a", threads=1)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == before


def test_a_folder_whose_name_is_not_utf8(table: Table, config: Config, tmp_path: Path) -> None:
    spec = table(made_up(80))
    assert len(prepare(config(spec), tmp_path / "d\udce9", threads=1)) == len(
        prepare(config(spec), tmp_path / "d", threads=1)
    )


def test_other_settings_or_input_are_refused(table: Table, config: Config, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    prepare(config(table(made_up(80))), folder, threads=1)
    (folder / "notes.txt").write_text("mine")
    other = config(table(made_up(81)))
    with pytest.raises(UsageError, match=r"differs in the contents of its input.*--overwrite"):
        prepare(other, folder, threads=1)
    with pytest.raises(UsageError, match="differs in filters, seed"):
        prepare(config(table(made_up(80)), seed=2, filters={"min_tokens": 2}), folder, threads=1)
    assert len(prepare(config(table(made_up(81))), folder, threads=1, overwrite=True)) == 81
    assert (folder / "notes.txt").read_text() == "mine"


def test_vocabulary_of_another_folder(table: Table, prepared: Prepared, tmp_path: Path) -> None:
    first = prepared(table(made_up(80)), "first", units=["pieces", "words"])
    second = prepared(table(made_up(50, 9), "b.tsv"), "second", units="words", vocabulary_from=str(first.folder))
    assert second.kinds == ["words"]
    assert second.tokenizers[0].files() == first.tokenizers[1].files()
    with pytest.raises(UsageError, match="has the tokens pieces, words, not trigrams"):
        prepared(table(made_up(50)), "third", units="trigrams", vocabulary_from=str(first.folder))
    with pytest.raises(UsageError, match="neither a prepared folder nor a model folder"):
        prepared(table(made_up(50)), "third", vocabulary_from=str(tmp_path))


def test_vocabulary_of_a_model(table: Table, prepared: Prepared, tiny_model: Path) -> None:
    pairs = prepared(table(made_up(30)), vocabulary_from=str(tiny_model))
    assert (pairs.folder / "sentencepiece.model").read_bytes() == (tiny_model / "sentencepiece.model").read_bytes()


def test_long_and_short_sentences(table: Table, prepared: Prepared) -> None:
    spec = table(made_up(100))
    whole = prepared(spec, "whole", units=["pieces", "trigrams"])
    cut = prepared(spec, "cut", units=["pieces", "trigrams"], min_pieces=MANY, max_pieces=30)
    shortest = np.minimum(whole.source[0].lengths, whole.target[0].lengths)
    assert len(cut) == int((shortest >= MANY).sum())
    assert 0 < len(cut) < 100
    assert cut.dropped == {"too_few_pieces": 100 - len(cut)}
    assert max(cut.source[0].lengths.max(), cut.target[0].lengths.max()) == 30
    assert cut.truncated > 0
    assert cut.target[1].lengths.max() == whole.target[1].lengths.max()


def test_texts_of_which_nothing_is_left(table: Table, prepared: Prepared) -> None:
    pairs = prepared(table([*made_up(60), {"source": "\u200b", "target": "dab"}]))
    assert pairs.dropped == {"no_units": 1}
    assert len(pairs) == 60


@pytest.mark.parametrize("rows", [[{"source": "", "target": "b"}], [{"source": "Same", "target": "same"}]])
def test_bitext_without_pairs_is_an_error(table: Table, prepared: Prepared, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match=r"pairs\.tsv: none of its 1 rows can be used for training \(1 (blank|equal)"):
        prepared(table(rows))


def test_an_empty_file_is_an_error(table: Table, prepared: Prepared) -> None:
    spec = table(made_up(1))
    Path(spec["path"]).write_bytes(b"")
    with pytest.raises(InputError, match=r"pairs\.tsv: there is no row in it"):
        prepared(spec)


def test_a_column_of_ids_is_no_domain(table: Table, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_DOMAINS", 20)
    rows = [{**row, "key": str(number)} for number, row in enumerate(made_up(30))]
    with pytest.raises(UsageError, match=r"more than 20 domains .* name the column that holds the domain"):
        prepared(table(rows, domain="key"))


@pytest.mark.parametrize("name", ["pieces.source.ids.npy", "target.groups.npy", "domain.npy", "sentencepiece.model"])
def test_damage_is_named(table: Table, prepared: Prepared, tmp_path: Path, name: str) -> None:
    folder = prepared(table(made_up(60))).folder
    whole = (folder / name).read_bytes()
    for damaged in (whole[:-3], whole[:20], b""):
        (folder / name).write_bytes(damaged)
        with pytest.raises(UsageError, match=rf"{name}: .*(overwrite|anew)"):
            open_prepared(folder)
    (folder / name).unlink()
    with pytest.raises(UsageError, match=rf"{name}: (is missing|cannot be read)"):
        open_prepared(folder)
    (folder / name).write_bytes(whole)
    assert len(open_prepared(folder)) == 60


def test_files_of_other_pairs_are_noticed(table: Table, prepared: Prepared) -> None:
    one = prepared(table(made_up(60)), "one").folder
    other = prepared(table(made_up(50, 4), "b.tsv"), "other").folder
    facts = json.loads((one / "prepared.json").read_text())
    facts["arrays"]["domain.npy"] = json.loads((other / "prepared.json").read_text())["arrays"]["domain.npy"]
    (one / "prepared.json").write_text(json.dumps(facts))
    shutil.copy(other / "domain.npy", one / "domain.npy")
    with pytest.raises(UsageError, match="not of the same pairs"):
        open_prepared(one)


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not a readable description"), ('{"format_version": 99}', "of format 99"), ("[]", "not a readable")],
)
def test_a_spoilt_description(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "prepared.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        open_prepared(tmp_path)


def test_damaged_pairs_are_prepared_anew_only_on_demand(table: Table, config: Config, tmp_path: Path) -> None:
    settings = config(table(made_up(60)))
    folder = prepare(settings, tmp_path / "a", threads=1).folder
    whole = contents(folder)
    (folder / "domain.npy").unlink()
    with pytest.raises(UsageError, match=r"domain\.npy: is missing"):
        prepare(settings, folder, threads=1)
    prepare(settings, folder, threads=1, overwrite=True)
    assert contents(folder) == whole
    assert not (folder / PARTIAL_FOLDER).exists()


def test_a_run_killed_while_the_files_are_moved(
    table: Table, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(table(made_up(60)))
    prepare(settings, tmp_path / "whole", threads=1)
    move = os.replace

    def kill(source: Any, target: Any) -> None:
        if Path(target) == tmp_path / "cut" / "sentencepiece.model":
            raise Killed
        move(source, target)

    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(Killed):
        prepare(settings, tmp_path / "cut", threads=1)
    monkeypatch.undo()
    assert (tmp_path / "cut" / "domain.npy").is_file()
    prepare(settings, tmp_path / "cut", threads=1)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
