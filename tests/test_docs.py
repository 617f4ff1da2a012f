"""Examples in docstrings and pages are whole programs, and run; pages have short lines."""

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


PAGES = sorted((ROOT / "docs").glob("*.md"))


def programs() -> dict[str, str]:
    """The programs of the pages on the library and on evaluation, by page and heading."""
    found = {}
    for page in ("api", "evaluation"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            title, body = section.split("\n", 1)
            if parts := re.findall(r"```python\n(.*?)```", body, re.DOTALL):
                found[f"{page}: {title.strip('`')}"] = "".join(parts)
    return found


def test_the_page_names_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in mining.__all__ if f"`{name}`" not in text] == []
    functions = {f"api: {name}" for name in mining.__all__ if not isinstance(getattr(mining, name), type)}
    assert functions <= set(programs())


@pytest.mark.parametrize("name", list(programs()))
def test_programs_of_the_pages_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = programs()[name]
    monkeypatch.chdir(tmp_path)
    exec(compile(program, name, "exec"), {"__name__": "__main__"})
    said = [line.removeprefix("# ") for line in program.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("*.md"))], ids=lambda page: page.name)
def test_lines_of_prose_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").split("\n")
    prose = [line for line in lines if not line.startswith(("|", "    "))]  # no tables, no commands
    assert [line for line in prose if len(line) > 100] == []
