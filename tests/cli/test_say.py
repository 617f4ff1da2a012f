"""Nothing in a file's name or texts commands the terminal, is taken for markup, or cannot be
written."""

from __future__ import annotations

import ast
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mining.errors import InputError
from mining.io.json_file import json_text
from mining.shown import safe, safe_lines, shown
from pipelines.cli import app
from pipelines.cli.say import LogFormatter, say, show_table, warn
from pipelines.console import SafeConsole
from pipelines.progress import Progress

ROOT = Path(__file__).parents[2]
#: Red, a bell, a line of its own, C1's CSI, text from right to left, a byte that is no UTF-8, and
#: markup of rich.
EVIL = "a\x1b[31mb\x07c\nd\x9bm\u202ee\udce9[red]f"
EVIL_SAFE = "a\\x1b[31mb\\x07c\\nd\\u009bm\\u202ee\\xe9[red]f"


def test_what_cannot_be_seen_is_shown_as_an_escape() -> None:
    assert shown("\ufeff3") == "\\ufeff3"
    assert shown("so\u00adft\u200bly\u00a0 \U000e0041") == "so\\u00adft\\u200bly\\u00a0 \\U000e0041"
    assert shown("\t\r\x00\x7f\x85\udc80\ud800") == "\\t\\r\\x00\\x7f\\u0085\\x80\\ud800"
    assert shown(EVIL) == EVIL_SAFE == shown(EVIL_SAFE)
    assert shown("Größe 大 \\n") == "Größe 大 \\n"


def test_texts_to_be_read_keep_what_commands_nothing() -> None:
    assert safe("z.\u00a0B. می\u200cخ") == "z.\u00a0B. می\u200cخ"
    assert safe(EVIL) == EVIL_SAFE
    assert safe("\u2028\u2029\u202a\u2066\u2069\x80") == "\\u2028\\u2029\\u202a\\u2066\\u2069\\u0080"
    assert safe_lines("a\nb\rc") == "a\nb\\rc"


def test_errors_show_what_they_quote() -> None:
    assert str(InputError(f"{EVIL}: the id '\ufeff3' stands twice")) == f"{EVIL_SAFE}: the id '\\ufeff3' stands twice"


def test_lines_tables_and_progress_are_safe(capfd: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    warn(EVIL)
    show_table(EVIL.replace("\n", ""), [EVIL.replace("\n", ""), "n"], [[EVIL, "1"]])
    SafeConsole(width=200).print(EVIL.replace("\n", ""))
    Progress().say(EVIL)
    out, err = capfd.readouterr()
    assert not [char for char in out + err if char != "\n" and not char.isprintable()]
    assert err.split("\n") == [f"warning: {EVIL_SAFE}", EVIL_SAFE, ""]
    assert out.split("\n")[0] == EVIL_SAFE
    assert out.count("[red]f") == 5


def test_log_records_are_safe_and_stay_apart() -> None:
    record = logging.LogRecord("mining", logging.WARNING, "", 1, "%s", (f"{EVIL}\nWARNING mining: no record",), None)
    text = LogFormatter("%(levelname)s %(name)s: %(message)s").format(record)
    assert text == "WARNING mining: " + EVIL_SAFE.replace("\\n", "\n    ") + "\n    WARNING mining: no record"


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bitext", *arguments])
    monkeypatch.setattr(logging, "captureWarnings", lambda on: None)
    with pytest.raises(SystemExit) as stop:
        app.main()
    return int(stop.value.code or 0)


@pytest.mark.parametrize("arguments", [("mine", "--bad\x1b[31m"), ("--bad\x1b[31m",), ("evaluate", "no\x1b[31m")])
def test_complaints_about_flags_are_safe(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, *arguments) == 2
    err = capfd.readouterr().err
    assert "\\x1b[31m" in err
    assert "\x1b[31m" not in err


def test_a_defect_keeps_a_traceback_that_is_safe(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        raise ValueError(EVIL)

    monkeypatch.setattr(app, "app", fail)
    assert run_main(monkeypatch) == 1
    err = capfd.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\x1b" not in err
    assert "ValueError: a\\x1b[31mb\\x07c\n" in err


def test_an_error_of_the_system_names_the_file_safely(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        raise OSError(28, "No space left on device", EVIL)

    monkeypatch.setattr(app, "app", fail)
    assert run_main(monkeypatch) == 1
    assert capfd.readouterr().err == f"error: {EVIL_SAFE}: No space left on device\n"


def test_streams_of_another_encoding_get_escapes(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/ma\xdf\xe9-\xe2\x86\x92.yaml"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from pipelines.cli.app import main; main()", "mine", "--config", name]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(b"/ma\\xdf\\xe9-\\u2192.yaml: no such configuration file\n")
    help_text = subprocess.run(
        [*command[:3], "mine", "--help"], env=environment, capture_output=True, timeout=120, check=False
    )
    assert help_text.returncode == 0


def calls(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_there_is_no_other_way_to_the_terminal() -> None:
    ways = {"print", "click.secho", "Console", "click.echo"}
    allowed = {"say.py"}
    modules = [path for folder in ("mining", "pipelines") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(modules) > 100
    found = {path.name: calls(path) & ways for path in modules if path.name not in allowed}
    assert {name: ways for name, ways in found.items() if ways} == {}


def test_json_of_names_that_are_no_utf8_can_be_written_and_read() -> None:
    text = json_text({"caf\udce9": "\u2028ä\ud800", "a": 1})
    assert json.loads(text.encode()) == {"caf\\xe9": "\u2028ä\\ud800", "a": 1}
    assert text == '{\n  "a": 1,\n  "caf\\\\xe9": "\u2028ä\\\\ud800"\n}'
