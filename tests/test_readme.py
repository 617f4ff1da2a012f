import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_library_example_runs(tiny_model, monkeypatch, capsys, tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "model-en-de").symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert len(lines) in {1, 2, 3}
    assert all("source_text" in line for line in lines)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_flags_that_are_shown_exist(bitext):
    for command in re.findall(r"^    bitext (.*)$", README, flags=re.MULTILINE):
        name = command.split()[0]
        shown = bitext(name, "--help").out
        for flag in re.findall(r"--[a-z-]+", command):
            assert flag in shown, (name, flag)
