"""The demo's data: hidden sentences have one translation, alignment is not given away; and the
whole demo, small."""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder import model_folder
from mining.errors import InputError, UsageError
from pipelines import demo
from pipelines.demo import Pair, choose_pairs, clean_pairs, hide, letters_key
from tests.conftest import Ended, sentence, translate

WORDS = st.sampled_from(
    ["Save", "save", "the", "file", "%d", "3", "Datei", "die", "speichern", "open?", "Page", "Seite"]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=40).map(clean_pairs)


def made_up(count: int, seed: int = 3) -> list[Pair]:
    """Distinct pairs of four to ten words, in the made-up languages of `tiny_model`."""
    chance = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        words = sentence(chance)
        pairs[" ".join(words)] = " ".join(translate(words))
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
def test_a_hidden_sentence_occurs_once(pairs: list[Pair], count: int, seed: int) -> None:
    chosen = choose_pairs(pairs, count, min_words=2, seed=seed)
    assert len(chosen) <= count
    assert set(chosen) <= set(pairs)
    assert all(len(pair.source.split()) >= 2 for pair in chosen)
    everywhere = [letters_key(text) for pair in pairs for text in pair]
    assert all(everywhere.count(letters_key(text)) == 1 for pair in chosen for text in pair)


def test_as_many_pairs_as_can_be_are_chosen() -> None:
    pairs = [Pair("save the file", "xa xb xc"), Pair("Save the file!", "xd xe xf"), Pair("open", "xg")]
    assert choose_pairs([*pairs, *made_up(7)], 9, 2, seed=1) == choose_pairs(made_up(7), 7, 2, seed=1)
    assert len(choose_pairs(made_up(7), 9, 2, seed=1)) == 7


def test_choice_does_not_depend_on_the_order_of_the_pairs() -> None:
    pairs = made_up(60)
    assert choose_pairs(pairs, 20, 4, seed=1) == choose_pairs(pairs[::-1], 20, 4, seed=1)
    assert choose_pairs(pairs, 20, 4, seed=1) != choose_pairs(pairs, 20, 4, seed=2)


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
    with pytest.raises(InputError, match=r"give 10 pairs, of which 10 can be hidden; the demo needs 30$"):
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


@pytest.fixture
def small_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of 300 made-up messages in place of the packages; 240 of them are hidden."""
    catalogue = write_catalogue(tmp_path / "de.po", made_up(300))
    monkeypatch.setattr(demo, "installed_catalogues", lambda: {"made-up": catalogue})
    monkeypatch.setattr(demo, "HIDDEN_PAIRS", 240)


@pytest.mark.usefixtures("small_demo")
def test_demo_end_to_end_with_the_bundled_model(
    tmp_path: Path, tiny_model: Path, bitext: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "BUNDLED_MODEL", tiny_model)
    first = bitext("demo", "--output", tmp_path / "run")
    lines = first.out.rstrip("\n").split("\n")
    assert first.code == 0
    assert lines[0] == "300 distinct pairs from the catalogues of made-up"
    assert "dev: 40 translations hidden among 80 English and 80 German sentences" in lines
    measured = next(line for line in lines if line.startswith("precision"))
    assert float(measured.split("F1 ")[1].split("%")[0]) > 50
    assert "tuned on dev" in measured
    assert sum(line.startswith(("  + ", "  - ")) for line in lines) == 5
    pairs = tmp_path / "run" / "test" / "run" / "pairs.tsv"
    assert any(line.endswith(f"mined pairs: {pairs}") for line in lines)
    # The last line can be copied as it is.
    name, *command = shlex.split(first.last_line)
    assert name == "bitext"
    assert bitext(*command).code == 0
    own = (tmp_path / "run" / "own" / "pairs.tsv").read_bytes()
    before = pairs.read_bytes()
    assert set(before.split(b"\n")) <= set(own.split(b"\n"))
    assert bitext("demo", "--output", tmp_path / "run").code == 0
    assert pairs.read_bytes() == before


@pytest.mark.usefixtures("small_demo")
@pytest.mark.parametrize("cached", [False, True])
def test_demo_says_before_it_compiles_for_the_first_time(
    tmp_path: Path, bitext: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    monkeypatch.setattr(demo, "kernel_folders", lambda: [tmp_path / "none", tmp_path])
    monkeypatch.setattr(demo, "tune", lambda *_: sys.exit(3))
    if cached:
        (tmp_path / "kernel-0123.nbc").touch()
    lines = bitext("demo", "--output", tmp_path / "run").out.split("\n")
    assert any(line.startswith("first run on this machine: numba compiles") for line in lines) is not cached


def test_command_for_own_files_calls_the_program_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/bitext", "demo"])
    command = demo.own_command(Path("demo run"), Path("model"))
    assert command.startswith(".venv/bin/bitext mine --columns id,text --source 'demo run/test/source.tsv' ")
    assert command.endswith(" --output 'demo run/own' --model model")


@pytest.mark.usefixtures("small_demo")
def test_demo_takes_the_model_that_is_named(tmp_path: Path, bitext: Callable[..., Ended]) -> None:
    ended = bitext("demo", "--output", tmp_path / "run", "--model", tmp_path / "none")
    assert ended.code == 2
    assert "none: no such file or folder" in ended.err
