"""Reading files that may come from anywhere."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

import pytest

from mining.errors import UsageError
from mining.io import files as module
from mining.io.files import map_buffer, read_buffer, read_bytes
from mining.io.json_file import parse_json
from mining.io.lock import locked
from mining.shown import listed, quoted, short


@pytest.mark.parametrize("read", [read_buffer, read_bytes, map_buffer])
def test_only_regular_files_are_read(read, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), tmp_path):
        with pytest.raises(UsageError, match=r"not a regular file|Is a directory"):
            read(path)
    with pytest.raises(UsageError, match="none: cannot be read: No such file"):
        read(tmp_path / "none")
    for data in (b"", b"abc\0"):
        (tmp_path / "file").write_bytes(data)
        assert bytes(read(tmp_path / "file")) == data


def test_no_more_is_read_than_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcd")
    assert read_bytes(tmp_path / "file", 4) == b"abcd"
    with pytest.raises(UsageError, match="file: has 4 bytes, more than 3"):
        read_bytes(tmp_path / "file", 3)


def test_a_file_that_shrinks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")

    class Shorter(module.io.FileIO):
        def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def,override]
            os.truncate(path, 2)
            return super().readinto(buffer)

    monkeypatch.setattr(module.io, "FileIO", Shorter)
    with pytest.raises(UsageError, match="became shorter"):
        read_bytes(path)


def test_what_was_read_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    data = read_buffer(path)
    path.write_bytes(b"wxyz")
    assert data.tobytes() == b"abcd"


def test_json_of_ill_will_is_a_reason() -> None:
    assert parse_json(b'{"a": [1, NaN]}')["a"][0] == 1
    for data in (b"[" * 100_000, b"1" * 5000, b"\xff", b"{"):
        with pytest.raises(ValueError, match=r"."):
            parse_json(data)


def test_what_a_file_says_is_short_in_a_message() -> None:
    deep: list[object] = []
    deep.append(deep)
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    for value in ("x" * 10**6, b"x" * 10**6, list(range(10**5)), {n: n for n in range(10**5)}, 10**6000, deep, nested):
        assert len(quoted(value)) < 100
    assert quoted("a'b") == '"a\'b"'
    assert quoted(10**6000) == "int"
    assert short("x" * 80) == "x" * 80
    assert short("x" * 81) == "x" * 80 + "..."
    assert listed([]) == "none"
    assert listed({"a": 1, "b" * 100: 2}) == "a, " + "b" * 80 + "..."
    assert listed([str(n) for n in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed([str(n) for n in range(11)]).endswith("9, ...")


def test_a_lock_is_told_from_a_file_system_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def taken() -> UsageError:
        return UsageError("taken")

    with locked(tmp_path, taken), pytest.raises(UsageError, match=r"taken$"), locked(tmp_path, taken):
        pass
    with locked(tmp_path, taken):
        pass

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with caplog.at_level(logging.WARNING), locked(tmp_path, taken):
        assert "cannot be locked on this file system (Operation not supported)" in caplog.text
