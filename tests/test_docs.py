"""Examples in docstrings and in docs/api.md are whole programs, and run."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import mining

ROOT = Path(__file__).parent.parent


def modules() -> list[str]:
    """The modules with examples in their docstrings."""
    paths = sorted(path for package in ("mining", "pipelines") for path in (ROOT / package).rglob("*.py"))
    names = [path for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in names]


@pytest.mark.parametrize("module", modules())
def test_examples_of_docstrings_run_by_themselves(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = [test for test in doctest.DocTestFinder().find(import_module(module)) if test.examples]
    assert examples
    for example in examples:
        assert not any(step.options.get(doctest.SKIP) for step in example.examples), example.name
        example.globs = {}  # a user has none of the names of the module
        assert doctest.DocTestRunner().run(example).failed == 0, example.name


def programs() -> dict[str, str]:
    """The programs of docs/api.md by the heading above them."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    sections = [section.split("\n", 1) for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    found = {title.strip("`"): re.findall(r"```python\n(.*?)```", body, re.DOTALL) for title, body in sections}
    return {title: "".join(parts) for title, parts in found.items() if parts}


def test_the_page_names_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in mining.__all__ if f"`{name}`" not in text] == []
    functions = {name for name in mining.__all__ if not isinstance(getattr(mining, name), type)}
    assert functions <= set(programs())


@pytest.mark.parametrize("name", list(programs()))
def test_programs_of_the_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = programs()[name]
    monkeypatch.chdir(tmp_path)
    exec(compile(program, name, "exec"), {"__name__": "__main__"})
    said = [line.removeprefix("# ") for line in program.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == said
