"""The demo's data: nothing hidden is met in training, alignment is not given away; and the whole demo, small."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mining.cli.app import app
from mining.errors import InputError, UsageError
from pipelines import demo
from pipelines.demo_data import Pair, clean_pairs, hide, letters_key, split_pairs

WORDS = st.sampled_from(
    ["Save", "save", "the", "file", "%d", "3", "Datei", "die", "speichern", "open?", "Page", "Seite"]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=40).map(clean_pairs)


def made_up(count: int, seed: int = 3) -> list[Pair]:
    """Distinct pairs of four to eight words, each word with a translation of its own."""
    chance = random.Random(seed)
    words = [a + b for a in ("ba", "ke", "lo", "mi", "nu") for b in ("da", "fe", "gi", "po", "vu")]
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        picked = [chance.choice(words) for _ in range(chance.randint(4, 8))]
        pairs[" ".join(picked)] = " ".join(f"x{word[::-1]}q" for word in picked)
    return [Pair(*item) for item in pairs.items()]


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("Delete 3 files?", "delete  files", True),
        ("&Save …", "save", True),
        ("\uff21\uff22", "ab", True),
        ("naïve", "naive", False),
        ("log in", "login", False),
    ],
)
def test_letters_key(first: str, second: str, equal: bool) -> None:
    assert (letters_key(first) == letters_key(second)) is equal


def test_clean_pairs_drops_what_teaches_nothing() -> None:
    pairs = [
        ("Save  the\nfile", " Datei\tspeichern "),
        ("save the file!", "Datei speichern"),
        ("URL", "url:"),
        ("%d (%s)", "%d (%s)"),
        ("s!issue(\\d+)!<a href=x>!", "Fehler im Programm"),
        ("word " * 61, "Wort"),
        ("", "leer"),
    ]
    assert clean_pairs(pairs) == [Pair("Save the file", "Datei speichern")]


@given(PAIRS, st.integers(0, 10), st.integers(1, 3))
def test_no_hidden_sentence_is_met_in_training(pairs: list[Pair], hidden: int, seed: int) -> None:
    training, held_out = split_pairs(pairs, hidden, min_words=2, seed=seed)
    assert sorted(training + held_out) == sorted(pairs)
    assert len(held_out) <= hidden
    met = {letters_key(text) for pair in training for text in pair}
    hidden_keys = [letters_key(text) for pair in held_out for text in pair]
    assert met.isdisjoint(hidden_keys)
    assert len(set(hidden_keys)) == len(hidden_keys)


def test_split_does_not_depend_on_the_order_of_the_pairs() -> None:
    pairs = made_up(60)
    assert split_pairs(pairs, 20, 4, seed=1)[1] == split_pairs(pairs[::-1], 20, 4, seed=1)[1]
    assert split_pairs(pairs, 20, 4, seed=1)[1] != split_pairs(pairs, 20, 4, seed=2)[1]


def test_hide_keeps_a_third_aligned() -> None:
    pairs = made_up(90)
    task = hide(pairs, seed=1)
    assert (len(task.source), len(task.target), len(task.gold)) == (60, 60, 30)
    source, target = dict(task.source), dict(task.target)
    translation = dict(pairs)
    assert all(translation[source[s]] == target[t] for s, t in task.gold)
    aligned = sum(translation[text] in set(target.values()) for text in source.values())
    assert aligned == len(task.gold)


def test_ids_and_order_do_not_tell_the_alignment() -> None:
    task = hide(made_up(600), seed=1)
    places = [(int(s.rpartition("-")[2]), int(t.rpartition("-")[2])) for s, t in task.gold]
    mean = [sum(place[side] for place in places) / len(places) for side in (0, 1)]
    covariance = sum((s - mean[0]) * (t - mean[1]) for s, t in places)
    variances = [sum((place[side] - mean[side]) ** 2 for place in places) for side in (0, 1)]
    assert abs(covariance) < 0.2 * (variances[0] * variances[1]) ** 0.5
    assert hide(made_up(600)[::-1], seed=1) == task


def test_prepare_says_when_there_is_too_little(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give 10 pairs, of which 10 can be hidden; the demo needs 30"):
        demo.prepare(tmp_path, made_up(10), hidden=30)


def test_missing_packages_are_all_named() -> None:
    with pytest.raises(UsageError, match=r"inside no-such-a, no-such-b, not installed: pip install 'bitext-miner\["):
        demo.installed_catalogues([("no-such-a", "de"), ("pytest", "de"), ("no-such-b", "de")])


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="give another --output"):
        demo.prepare(tmp_path / "file", made_up(30), hidden=9)


def write_catalogue(path: Path, pairs: list[Pair]) -> str:
    entries = "".join(f'msgid "{pair.source}"\nmsgstr "{pair.target}"\n\n' for pair in pairs)
    path.write_text(f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n{entries}', encoding="utf-8")
    return str(path)


def test_demo_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = write_catalogue(tmp_path / "de.po", made_up(700))
    monkeypatch.setattr(demo, "installed_catalogues", lambda: {"made-up": catalogue})
    monkeypatch.setattr(demo, "HIDDEN_PAIRS", 240)
    small = {"vocabulary": 120, "dim": 16, "epochs": 12, "learning_rate": 0.02, "anneal": 2, "batch": 64, "threads": 1}
    monkeypatch.setattr(demo, "TRAINING", small)
    first = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "run")], catch_exceptions=False)
    lines = first.stdout.rstrip("\n").split("\n")
    assert first.exit_code == 0
    assert "dev: 40 translations hidden among 80 English and 80 German sentences" in lines
    measured = next(line for line in lines if line.startswith("precision"))
    assert float(measured.split("F1 ")[1].split("%")[0]) > 50
    assert "tuned on dev" in measured
    assert sum(line.startswith(("  + ", "  - ")) for line in lines) == 5
    pairs = tmp_path / "run" / "test" / "run" / "pairs.tsv"
    assert lines[-1].endswith(f"mined pairs: {pairs}")
    before = pairs.read_bytes()
    second = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "run")], catch_exceptions=False)
    assert second.exit_code == 0
    assert pairs.read_bytes() == before
