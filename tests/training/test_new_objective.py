"""A new objective is one file: trained with by its name, in the help, described where set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mining.config.train import TrainConfig
from mining.encoder.model_folder import read_description
from mining.training.objectives import OBJECTIVES
from pipelines.cli.commands.train import train
from tests.cli.runner import runner

DISTANCE = '''
from pydantic import Field

from mining.training.objectives import OBJECTIVES, LossGradient, Objective


@OBJECTIVES.register("distance")
class Distance(Objective):
    """Squared distance of a sentence and its translation."""

    help = "squared distance of translations"
    weight: float = Field(default=1.0, gt=0)
    """By which the distance is multiplied."""

    def __call__(self, vectors, present=None, excluded=None):
        apart = vectors[0] - vectors[1]
        gradient = vectors.new_zeros(vectors.shape)
        gradient[0], gradient[1] = apart, -apart
        pairs = vectors.shape[1]
        return LossGradient(float((apart**2).sum()) * self.weight / pairs, gradient.mul_(2 * self.weight / pairs))
'''


@pytest.fixture
def distance(one_more: Callable[..., str]) -> str:
    """The name of an objective that is nothing but one more file in the package."""
    return one_more(OBJECTIVES, "distance", DISTANCE)


def test_a_new_objective_is_one_file(distance: str, bitext: Path, tmp_path: Path) -> None:
    data = ("--bitext", bitext, "--columns", "source,target,domain", "--vocabulary", 100, "--batch", 20)
    training = ("--dim", 8, "--epochs", 2, "--threads", 1, "--model", tmp_path / "model")
    runner(train)(*data, *training, "--objective", distance, "--weight", 0.5)
    summary = read_description(tmp_path / "model").training
    assert summary["steps"] == 20
    assert (summary["config"]["objective"], summary["config"]["weight"]) == (distance, 0.5)
    text = " ".join(runner(train)("--help").stdout.split())
    assert "distance: squared distance of translations;" in text
    assert "--weight NUMBER By which the distance is multiplied. [default: 1]" in text


def test_models_of_other_objectives_stay_what_they_are(distance: str, settings: dict[str, object]) -> None:
    assert "weight" not in TrainConfig.model_validate(settings).learnt()
    with pytest.raises(ValueError, match="weight"):
        TrainConfig.model_validate({**settings, "objective": distance, "weight": 0})
