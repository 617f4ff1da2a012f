"""A small made-up bitext whose second language spells the first one backwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mining.training import TrainConfig


@pytest.fixture(scope="session")
def bitext(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(3, 7))) for _ in range(60)]
    path = tmp_path_factory.mktemp("bitext") / "pairs.tsv"
    lines = []
    for number in range(200):
        chosen = chance.choices(words, k=chance.randint(3, 9))
        domain = "rare" if number % 10 == 0 else "common"
        lines.append(f"{' '.join(chosen)}\t{' '.join(word[::-1] + 'o' for word in chosen)}\t{domain}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def settings(bitext: Path, tmp_path: Path) -> dict[str, Any]:
    return {
        "bitext": {"path": str(bitext), "columns": ["source", "target", "domain"]},
        "model": str(tmp_path / "model"),
        "vocabulary": 100,
        "dim": 16,
        "batch": 16,
        "mega_batch": 3,
        "anneal": 5,
        "epochs": 3,
        "learning_rate": 0.01,
        "threads": 1,
    }


@pytest.fixture
def config(settings: dict[str, Any]) -> TrainConfig:
    return TrainConfig.model_validate(settings)
