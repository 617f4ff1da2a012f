"""The flags of every command: those that there were stay, with their short forms."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

from pipelines.cli.app import app
from pipelines.cli.options import Command

#: The flags of version 0.1.0, those of earlier names among them.
FLAGS = {
    "mine": """
        --backend --candidates --clusters --columns --config --dask-address --device --dim --dtype --format
        --gold --index --k --margin --method --model --nearest --no-candidates --no-quiet --output
        --parameters --quiet --rescore --runner --shard-rows --source --source-language --source-text
        --strategy --target --target-language --target-text --threads --threshold --workers
    """,
    "plan": """
        --config --cores --device --dim --disk --index --json --k --memory --method --model --parameters
        --source-rows --target-rows
    """,
    "prepare": """
        --bitext --cap --columns --config --domain --drop --drop-duplicates --drop-equal --format
        --keep-case --keep-duplicates --keep-equal --language-id --languages --lowercase --max-pieces
        --max-ratio --max-similarity --max-tokens --max-trigram-overlap --min-similarity --min-tokens
        --output --overwrite --paraphrases --score --seed --similarity-model --source --target --threads
        --types --units --vocabulary --vocabulary-from --vocabulary-sentences -c -o
    """,
    "train": """
        --activation --additive-margin --anneal --apart --batch --bitext --checkpoint-minutes --columns
        --combine --config --delta --device --dim --domain --dropout --encoder --epochs --format --grad-clip
        --hidden --initial-vectors --keep-case --keep-checkpoint --l2 --languages --learning-rate
        --lowercase --max-pieces --mega-batch --min-pieces --minutes --model --negative-choice
        --negative-pool --negatives --objective --overwrite --prepared --projection --pull --report --scale
        --schedule --scramble --seed --shared --source --target --tensorboard --threads --types --units
        --vocabulary --vocabulary-sentences -c -m
    """,
    "convert": """
        --dim --dtype --keep-case --languages --lowercase --output --overwrite --sentencepiece --to
        --vocabulary -o
    """,
    "encode": """
        --columns --config --device --dim --dtype --format --id --invalid-utf8 --language --max-chars
        --model --on-bad-row --out --table-dtype --text --threads -c -m -o
    """,
    "score": """
        --columns --config --device --dim --dtype --format --id --invalid-utf8 --k --margin --max-chars
        --model --on-bad-row --output --pool-columns --pool-format --source --source-language --source-pool
        --source-pool-text --target --target-language --target-pool --target-pool-text --threads -m -o
    """,
    "demo": """
        --model --output -m -o
    """,
    "evaluate bucc": """
        --candidates --columns --dropped --folds --format --gold --id --json --pairs --source --target
        --test-gold --test-pairs --text --threshold
    """,
    "evaluate mining": """
        --columns --device --dim --dtype --folds --format --gold --json --k --margin --model --source
        --source-language --strategy --target --target-language --threads -m
    """,
    "evaluate tatoeba": """
        --columns --device --dim --dtype --format --invalid-utf8 --json --model --source --source-language
        --target --target-language --threads -m
    """,
    "evaluate sts": """
        --device --dim --dtype --json --language --model --threads -m
    """,
}

#: Libraries that would make the help of a command slow.
HEAVY = ("numpy", "pyarrow", "numba", "torch", "faiss", "rich", "yaml", "apache_beam")


def command(name: str) -> click.Command:
    found: click.Command | None = app
    for part in name.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), part)
    assert found is not None
    return found


def flags(name: str) -> set[str]:
    one = command(name)
    parameters = one.get_params(click.Context(one))
    return {flag for parameter in parameters for flag in (*parameter.opts, *parameter.secondary_opts)}


def all_commands(group: click.Command = app, prefix: str = "") -> list[str]:
    if not isinstance(group, click.Group):
        return [prefix]
    names = group.list_commands(click.Context(group))
    return [
        one for name in names for one in all_commands(command(f"{prefix} {name}".strip()), f"{prefix} {name}".strip())
    ]


def test_every_command_is_there() -> None:
    assert set(all_commands()) == set(FLAGS)


@pytest.mark.parametrize("name", FLAGS)
def test_flags_stay(name: str) -> None:
    assert set(FLAGS[name].split()) <= flags(name)


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_has_a_help_text(name: str) -> None:
    one = command(name)
    assert isinstance(one, Command)
    texts = {each.name: each.info.description or "" for each in one.settings() if not each.hidden}
    assert [name for name, text in texts.items() if not (text[:1].isupper() or text[:3] in ("0: ", "cpu"))] == []
    assert [name for name, text in texts.items() if not text.endswith(".")] == []


@pytest.mark.parametrize("name", FLAGS)
def test_help_has_examples(name: str) -> None:
    one = command(name)
    text = one.get_help(click.Context(one, info_name=f"bitext {name}"))
    assert f"bitext {name}" in text.partition("Examples:\n")[2].split("\n\n")[0]


@pytest.mark.parametrize("filters", [True, False])
def test_help_imports_nothing_heavy(filters: bool) -> None:
    """The modules of filters and tokenizers, whose settings are flags, may import numpy."""
    names = [name for name in all_commands() if filters == (name in ("prepare", "train"))]
    script = (
        "import sys, click\n"
        "from tests.cli.test_flags import command\n"
        f"for name in {names}:\n"
        "    one = command(name); one.get_help(click.Context(one))\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(HEAVY) <= ({"numpy"} if filters else set())


def test_flags_of_before_are_read_with_a_note(
    bitext: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []
    monkeypatch.setattr("pipelines.mine.run_mine", lambda settings, quiet: asked.append(settings))
    flags = ("--source", "a", "--target", "b", "--output", "c", "--index", "IVF256,Flat", "--k", "8", "--rescore", "12")
    bitext("mine", *flags)
    assert asked[0].search.refine_factor == 2.5
    assert "'rescore' is called 'refine_factor' now" in caplog.text
    assert "--rescore" not in bitext("mine", "--help").out
