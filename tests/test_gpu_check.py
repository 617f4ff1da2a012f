"""The check script for GPUs runs where there is none."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(module.SIZES, "small", ((400, 700), [(300, 500), (600, 800)], 200, 64))
    monkeypatch.delenv("BITEXT_DATA", raising=False)
    return module


def run(script, monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--rows", "small", *arguments])
    script.main()
    return capsys.readouterr().out


def test_every_part_runs_and_the_lists_are_equal(script, monkeypatch, capsys):
    out = run(script, monkeypatch, capsys, "--device", "cpu,cpu", "--seconds", "1000")
    assert out.count("lists equal those of the CPU") == 2
    assert "DIFFER" not in out
    assert "search of 600 x 800 x 300: tiles" in out
    assert "of the measured peak" in out
    assert "all 200 again" in out


def test_what_the_time_does_not_hold_is_left_out(script, monkeypatch, capsys):
    out = run(script, monkeypatch, capsys, "--device", "cpu", "--seconds", "1")
    assert "left out" in out
    assert "sentences/s" not in out
