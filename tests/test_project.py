"""The lock file and setup.py agree, and neither brings what a CPU installation must not have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PINS = {
    re.sub(r"[-_.]+", "-", line.split("==")[0]).lower(): line
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").split("\n")
    if line and not line.startswith("#")
}
REQUIREMENTS = {
    target.id: ast.unparse(node.value)
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign)
    for target in node.targets
    if isinstance(target, ast.Name)
}


def names(group: str) -> set[str]:
    """Normalised names of the distributions in a list of setup.py."""
    found = re.findall(r"'([A-Za-z0-9._-]+)(?:[<>=!~][^']*)?'", REQUIREMENTS[group])
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


@pytest.mark.parametrize("group", ["REQUIREMENTS", "CPU", "DASK", "DEMO", "TEST", "DEV"])
def test_every_requirement_is_locked(group: str) -> None:
    assert names(group)
    assert names(group) <= set(PINS)


def test_lock_has_exact_public_versions_only() -> None:
    assert [line for line in PINS.values() if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_lock_is_for_the_cpu() -> None:
    assert [name for name in PINS if name.startswith(("nvidia", "cuda", "triton", "faiss-gpu"))] == []


def test_faiss_is_no_base_requirement_and_its_two_builds_are_apart() -> None:
    assert not any("faiss" in name for name in names("REQUIREMENTS"))
    assert names("CPU") == {"faiss-cpu"}
    assert names("GPU") == {"faiss-gpu"}
