"""A made-up pair of languages, a tiny model trained on it, and a mining task with gold, all in a
second or two."""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from mining.registry import Registry
from mining.training import TrainConfig, train
from pipelines.cli.app import main

# No test depends on time: an example that is slow on a busy machine is no failure.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

WORDS = [
    f"{a}{b}" for a in ("ba", "ke", "lo", "mi", "nu", "ra", "so", "ti") for b in ("da", "fe", "gi", "po", "vu", "zy")
]
#: The other language: each word has its own translation.
TRANSLATION = {word: f"x{word[::-1]}q" for word in WORDS}


def sentence(chance: random.Random) -> list[str]:
    """A made-up sentence as a list of words."""
    return [chance.choice(WORDS) for _ in range(chance.randint(4, 10))]


def translate(words: list[str]) -> list[str]:
    """The sentence in the other language."""
    return [TRANSLATION[word] for word in words]


@dataclass(frozen=True)
class Task:
    """A mining task in the BUCC layout: two TSV files (id, text) and gold pairs."""

    source: Path
    target: Path
    gold: Path
    source_rows: list[tuple[str, str]]
    target_rows: list[tuple[str, str]]
    gold_pairs: list[tuple[str, str]]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder trained on 600 made-up pairs: 16 dimensions."""
    folder = tmp_path_factory.mktemp("tiny")
    chance = random.Random(1)
    pairs = [sentence(chance) for _ in range(600)]
    bitext = folder / "bitext.tsv"
    bitext.write_text("".join(f"{' '.join(p)}\t{' '.join(translate(p))}\n" for p in pairs), encoding="utf-8")
    config = TrainConfig.model_validate(
        {
            "bitext": {"path": str(bitext), "columns": ["source", "target"]},
            "model": str(folder / "model"),
            "vocabulary": 200,
            "dim": 16,
            "epochs": 12,
            "learning_rate": 0.02,
            "anneal": 2,
            "mega_batch": 4,
            "batch": 64,
            "threads": 1,
        }
    )
    return train(config)


def write_task(folder: Path, rows: int = 220, aligned: int = 90, seed: int = 5) -> Task:
    """Write a task with duplicates and blank rows on both sides; the order of the sides says
    nothing of the gold."""
    chance = random.Random(seed)
    sentences = [sentence(chance) for _ in range(2 * rows - aligned)]
    source = [(f"s-{i:04d}", " ".join(words)) for i, words in enumerate(sentences[:rows])]
    target = [(f"t-{i:04d}", " ".join(translate(words))) for i, words in enumerate(sentences[rows - aligned :])]
    gold = [(source[rows - aligned + i][0], target[i][0]) for i in range(aligned)]
    source += [("s-copy", source[-1][1]), ("s-blank", ""), ("s-space", " \u00a0 ")]
    target += [("t-copy", target[0][1] + " "), ("t-copy2", target[0][1]), ("t-blank", "")]
    chance.shuffle(source)
    chance.shuffle(target)
    paths = folder / "source.tsv", folder / "target.tsv", folder / "gold.tsv"
    for path, table in zip(paths, (source, target, gold), strict=True):
        path.write_text("".join(f"{left}\t{right}\n" for left, right in table), encoding="utf-8")
    return Task(*paths, source, target, gold)


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """A small mining task with gold."""
    return write_task(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The evaluation data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("BITEXT_DATA", "../shared/data"))
    if not (folder / "bucc").is_dir():
        pytest.skip(f"no evaluation data at {folder}: set BITEXT_DATA")
    return folder


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """The last line on standard output."""
        return self.out.rstrip("\n").rsplit("\n", 1)[-1]


@pytest.fixture
def bitext(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the program ``bitext`` in this process."""

    def run(*args: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["bitext", *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = capsys.readouterr()
        return Ended(code, out, " ".join(err.split()))

    return run


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Registry[Any], str, str], str]]:
    """Puts one more file of a name and a source into the package of a registry, until the test has
    ended; returns the name."""
    added = []

    def add(registry: Registry[Any], name: str, source: str) -> str:
        package = importlib.import_module(registry.package)
        folder = tmp_path / "one-more" / registry.package
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        added.append((registry, name))
        return name

    yield add
    for registry, name in added:
        sys.modules.pop(f"{registry.package}.{name}", None)
        registry._entries.pop(name, None)
