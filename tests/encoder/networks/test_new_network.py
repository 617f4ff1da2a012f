"""A new network is one file: trained, saved small, loaded, encoded with, told of in the help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mining.encoder import load_encoder
from mining.encoder.model_folder import read_description
from mining.encoder.networks import NETWORKS
from mining.errors import UsageError
from pipelines.cli.commands.convert import convert
from pipelines.cli.commands.train import train
from tests.cli.runner import runner
from tests.encoder.conftest import made_up_sentences

SCALED = '''
import torch
from pydantic import Field

from mining.encoder.bags import bag_sums, bags_on, row_gradient
from mining.encoder.networks import NETWORKS, Gradients, KindSettings, Leading, Network


class ScaledSettings(KindSettings):
    factor: float = Field(default=1.0, gt=0)
    """By which the sums are multiplied."""

    def check(self, network):
        if network.kind == "scaled" and len(network.tokens) != 1:
            raise ValueError("kind: scaled works on one kind of tokens")


@NETWORKS.register("scaled")
class ScaledNetwork(Network):
    """Sums of words, some times over."""

    kind, settings, default_tokens = "scaled", ScaledSettings, ("words",)

    def __init__(self, tables, factor):
        self.tables, self.weights, self.factor = dict(tables), {}, factor
        ((self.name, table),) = self.tables.items()
        self.dim = table.shape[1]

    @classmethod
    def fresh(cls, settings, tables, generator):
        return cls(tables, settings.part(ScaledSettings).factor)

    @classmethod
    def load(cls, stored, tables, weights):
        return cls(tables, stored["factor"])

    def stored_settings(self):
        return {"kind": self.kind, "factor": self.factor}

    def forward(self, tokens):
        table, (bags,) = self.tables[self.name], tokens
        sums = bag_sums(table, *bags_on(bags, table)).mul_(self.factor)
        return sums, lambda gradient: Gradients({self.name: row_gradient(bags, gradient * self.factor)}, {})

    def leading(self, dim):
        return Leading({self.name: dim}, {})
'''


@pytest.fixture
def scaled(one_more: Callable[..., str]) -> str:
    """The name of a network that is nothing but one more file in the package."""
    return one_more(NETWORKS, "scaled", SCALED)


@pytest.fixture
def bitext(tmp_path: Path) -> Path:
    sentences = made_up_sentences(60)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in sentences))
    return tmp_path / "pairs.tsv"


def test_a_new_network_is_one_file(scaled: str, bitext: Path, tmp_path: Path) -> None:
    data = ("--bitext", bitext, "--columns", "source,target", "--batch", 10, "--epochs", 1, "--threads", 1)
    runner(train)(*data, "--encoder", scaled, "--factor", 2.5, "--dim", 8, "--model", tmp_path / "model")
    description = read_description(tmp_path / "model")
    assert description.network == {"kind": scaled, "factor": 2.5}
    assert [one.kind for one in description.tokenizers] == ["words"]
    vectors, valid = load_encoder(tmp_path / "model").encode(["bake lomi", ""])
    assert valid.tolist() == [True, False]
    runner(convert)(tmp_path / "model", "--dim", 5, "--dtype", "int8", "--output", tmp_path / "small")
    for encoder in (load_encoder(tmp_path / "small"), load_encoder(tmp_path / "model", dim=5, dtype="float16")):
        cut, _ = encoder.encode(["bake lomi", ""])
        expected = vectors[:, :5] / max(np.linalg.norm(vectors[0, :5]), 1e-9)
        np.testing.assert_allclose(cut, expected, atol=0.05)


def test_a_new_network_checks_its_settings_and_is_in_the_help(scaled: str, bitext: Path, tmp_path: Path) -> None:
    command = runner(train)
    text = " ".join(command("--help").stdout.split())
    assert "scaled: Sums of words, some times over" in text
    assert "--factor NUMBER By which the sums are multiplied" in text
    data = ("--bitext", bitext, "--columns", "source,target", "--model", tmp_path / "model")
    with pytest.raises(UsageError, match="kind: scaled works on one kind of tokens"):
        command(*data, "--encoder", scaled, "--tokens", "words,pieces")
    with pytest.raises(UsageError, match="factor"):
        command(*data, "--encoder", scaled, "--factor", 0)


def test_a_network_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="unknown network 'avarage': did you mean 'average'"):
        NETWORKS.check("avarage")
