"""A new command is one new file: its settings are its flags, and the program lists it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import commands
from pipelines.cli.commands import COMMANDS

MODULE = '''
"""``bitext greet``: says hello."""

from typing import Annotated, Literal

from pydantic import Field

from mining.config.base import Flag, Settings
from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import command
from pipelines.cli.say import say


class GreetConfig(Settings):
    names: Annotated[list[str], Flag("NAME")]
    """Who is greeted."""
    words: list[str] = ["hello"]
    """What is said."""
    times: int = Field(default=1, ge=1)
    """How often."""
    tone: Literal["calm", "loud"] = "calm"
    """How loud it is."""
    polite: Annotated[bool, Flag("--polite/--rude")] = True
    """Say please."""


@COMMANDS.register("greet")
@command("pipelines.cli.commands.greet:GreetConfig", "greet Ada --times 2")
def greet(settings, call):
    """Say hello."""
    say(repr((settings.names, settings.words, settings.times, settings.tone, settings.polite)))
'''


@pytest.fixture(autouse=True)
def greet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "greet.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    yield
    COMMANDS._entries.pop("greet", None)
    sys.modules.pop("pipelines.cli.commands.greet", None)


def test_it_is_listed_and_described(bitext: Callable[..., Any]) -> None:
    assert "greet     Say hello." in bitext("--help").out
    text = " ".join(bitext("greet", "--help").out.split())
    assert "Usage: bitext greet [OPTIONS] NAME..." in text
    assert "Examples: bitext greet Ada --times 2" in text
    assert "--times INTEGER How often. [default: 1]" in text
    assert "--words A,B,... What is said. [default: hello]" in text
    assert "--tone TEXT How loud it is. [calm, loud; default: calm]" in text
    assert "--polite / --rude Say please. [default: polite]" in text


def test_flags_and_a_file_make_its_settings(bitext: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "greet.yaml"
    path.write_text("names: [Grace]\ntimes: 3\ntone: loud\n")
    assert bitext("greet", "Ada", "Bo").out == "(['Ada', 'Bo'], ['hello'], 1, 'calm', True)\n"
    ended = bitext("greet", "--config", path, "--rude", "--words", "hi, hey", "--times", "2")
    assert ended.out == "(['Grace'], ['hi', 'hey'], 2, 'loud', False)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Ada", "--times", "0"), "bitext greet: --times: Input should be greater than or equal to 1"),
        (("Ada", "--times", "many"), "--times: Input should be a valid integer"),
        (("Ada", "--tone", "high"), "--tone: Input should be 'calm' or 'loud'"),
        ((), "nothing given for names: use NAME, or 'names:' in the file of --config"),
        (("--tims", "1"), "No such option '--tims'"),
    ],
)
def test_what_is_wrong_is_told_by_its_flag(
    bitext: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    ended = bitext("greet", *arguments)
    assert (ended.code, message in ended.err) == (2, True), ended.err


def test_a_fault_of_the_file_is_told_by_its_key(bitext: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "greet.yaml"
    path.write_text("names: [Ada]\ntimes: 0\ntone: calm\n")
    ended = bitext("greet", "--config", path)
    assert f"{path}: times: Input should be greater than or equal to 1" in ended.err
    path.write_text("names: [Ada]\ntime: 1\n")
    assert "unknown key 'time': did you mean 'times'?" in bitext("greet", "--config", path).err
