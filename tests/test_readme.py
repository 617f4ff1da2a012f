import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_library_example_finds_the_translations(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    found = [ast.literal_eval(line) for line in capsys.readouterr().out.rstrip("\n").split("\n")]
    assert {(pair["source_text"], pair["target_text"]) for pair in found} == {
        ("The house is old.", "Das Haus ist alt."),
        ("Where is the station?", "Wo ist der Bahnhof?"),
        ("I like tea.", "Ich mag Tee."),
    }


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_flags_that_are_shown_exist(bitext):
    for command in re.findall(r"^    bitext (.*)$", README, flags=re.MULTILINE):
        words = command.split()
        names = words[: 2 if words[0] == "evaluate" else 1]
        shown = bitext(*names, "--help").out
        for flag in re.findall(r"--[a-z-]+", command):
            assert flag in shown, (names, flag)
