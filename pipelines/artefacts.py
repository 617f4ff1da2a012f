"""Steps and what they leave behind: files that are renamed into place, and a marker that is written
last.

A step is the work on one shard spec. Its key hashes everything that its result depends on: stage,
version of the code, parameters, versions of libraries and the content hashes of its inputs. A
marker with the same key whose files have the recorded sizes and hashes means that the step is done;
anything else means that it is done again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mining.errors import RunError
from mining.io.atomic import TEMPORARY, check_place, put_in_place, replacing
from mining.io.files import file_hash
from mining.io.json_file import json_digest, json_text, parse_json, read_json, write_json
from pipelines.lists import FOLDER as LISTS
from pipelines.lists import FileList, read_list

#: Part of every key: raise it when a stage computes or writes something else from the same inputs.
VERSION = 3
#: What reading a damaged file of a step may end in.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Step:
    """One shard spec: small, plain data that any runner can carry.

    `inputs` maps paths (absolute, or relative to the run folder) to content hashes; `lists` names
    those inputs that grow with the number of shards, by the hashes of lists that are written once
    (`pipelines.lists`). `params` and `versions` (of libraries) are part of the key, `execution`
    (threads, device, tile sizes, places of files) is not: it never changes the result.
    `destination` is the folder of the outputs, relative to the run folder.
    """

    run: str
    stage: str
    name: str
    params: dict[str, Any]
    inputs: dict[str, str]
    execution: dict[str, Any] = field(default_factory=dict)
    destination: str = ""
    lists: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def key(self) -> str:
        """Hex digest over everything that the result depends on; computed once."""
        facts = [VERSION, self.stage, self.name, self.params, list(self.inputs.values()), self.destination]
        facts += [self.lists, self.versions]
        return json_digest(facts)

    @property
    def folder(self) -> Path:
        """Where the outputs go."""
        return Path(self.run, self.destination or f"work/{self.stage}")

    @property
    def marker_path(self) -> Path:
        """The marker, written last."""
        return Path(self.run, "work", self.stage, f"{self.name}.json")

    @property
    def error_path(self) -> Path:
        """Where a failed step leaves its message for the driver, whatever the runner does with
        exceptions."""
        return Path(self.run, "work", self.stage, f"{self.name}.error.json")

    @property
    def progress_path(self) -> Path:
        """Where a long step leaves word of how far it is."""
        return Path(self.run, "work", self.stage, f"{self.name}.progress")

    def done(self) -> float:
        """The share of this step that is done, 0 to 1, as far as its worker has told."""
        if os.path.exists(self.marker_path):
            return 1.0
        try:
            done = float(self.progress_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0.0
        return done if 0 <= done <= 1 else 0.0

    def path(self, relative: str) -> str:
        """An input path as it can be opened."""
        return str(Path(self.run, relative))

    def files(self, name: str) -> FileList:
        """The files of one of the `lists`."""
        return read_list(self.run, self.lists[name])


@dataclass(frozen=True)
class Marker:
    """What a finished step wrote: `files` by path relative to the run folder, with bytes and hash;
    `info` for the driver; and `versions` of what it used."""

    key: str
    files: dict[str, dict[str, Any]]
    info: dict[str, Any]
    cost: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)

    def inputs(self, suffix: str = "") -> dict[str, str]:
        """The files (with this suffix) as inputs of a later step."""
        return {path: facts["hash"] for path, facts in self.files.items() if path.endswith(suffix)}

    def file(self, suffix: str) -> str:
        """The one file with this suffix."""
        (path,) = self.inputs(suffix)
        return path


@dataclass(frozen=True)
class Failure:
    """What a failed step tells the driver: `known` for an error that its user can mend."""

    message: str
    exit_code: int
    known: bool
    traceback: str
    worker: str

    @classmethod
    def read(cls, data: Any) -> Failure:
        """From what JSON gave; raises TypeError or ValueError when that is no failure."""
        failure = cls(**data)
        if not isinstance(failure.message, str) or failure.exit_code not in (1, 2):
            raise ValueError("it is damaged")
        return failure


def _seal(data: dict[str, Any]) -> str:
    return hashlib.blake2b(json_text(data).encode(), digest_size=16).hexdigest()


def write_marker(step: Step, marker: Marker) -> None:
    """Write the marker of a step, with a digest of its contents."""
    # As it will be read: keys are strings then, and names of files can be shown.
    data = parse_json(json_text(vars(marker)))
    write_json(step.marker_path, {**data, "seal": _seal(data)})


def read_marker(step: Step) -> Marker | None:
    """The marker of a step if it is whole and has its key, else None."""
    try:
        data = read_json(step.marker_path)
        if data.pop("seal") != _seal(data):
            return None
        marker = Marker(**data)
    except _DAMAGE:
        return None
    return marker if marker.key == step.key else None


def verified_marker(step: Step) -> Marker | None:
    """The marker of a step if it has its key and every file is there with its size and hash, else
    None."""
    marker = read_marker(step)
    if marker is None:
        return None
    for relative, facts in marker.files.items():
        path = Path(step.run, relative)
        try:
            if path.stat().st_size != facts["bytes"] or file_hash(str(path)) != facts["hash"]:
                return None
        except OSError:
            return None
    return marker


class Outputs:
    """The files of a running step, under temporary names until `commit`."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.names: list[str] = []
        self.suffix = f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
        self._told = time.monotonic()
        step.marker_path.parent.mkdir(parents=True, exist_ok=True)

    def report(self, done: float) -> None:
        """Leave word of the share of the step that is done (0 to 1), twice a second at most."""
        now = time.monotonic()
        if now - self._told >= 0.5:
            self._told = now
            # It is for the eye only: a full disk is told where a file of the step meets it.
            with contextlib.suppress(OSError), replacing(self.step.progress_path, cache=True) as temporary:
                Path(temporary).write_text(f"{done:.4f}", encoding="utf-8")

    def path(self, name: str) -> str:
        """A temporary path for the output file `name`; raises UsageError when it cannot have that
        name."""
        self.step.folder.mkdir(parents=True, exist_ok=True)
        check_place(self.step.folder / name)
        self.names.append(name)
        return str(self.step.folder / name) + self.suffix

    def commit(self, info: dict[str, Any], cost: dict[str, Any]) -> None:
        """Rename the files, then write the marker."""
        files = {}
        for name in self.names:
            final = self.step.folder / name
            temporary = str(final) + self.suffix
            relative = os.path.relpath(final, self.step.run)
            files[relative] = {"bytes": os.path.getsize(temporary), "hash": file_hash(temporary)}
            # Of the files between two stages a power cut may leave a part: their hashes tell.
            put_in_place(temporary, final, durable=bool(self.step.destination))
        write_marker(self.step, Marker(self.step.key, files, info, cost, self.step.versions))

    def discard(self) -> None:
        """Remove what a failed step left."""
        for name in self.names:
            with contextlib.suppress(OSError):
                os.unlink(str(self.step.folder / name) + self.suffix)


def read_failure(step: Step) -> Failure | None:
    """What a failed step left for the driver."""
    try:
        return Failure.read(read_json(step.error_path))
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        raise RunError(
            f"stage {step.stage}, {step.name} failed, and {step.error_path} cannot be read: {error}"
        ) from None


def sweep(folder: Path, keep: set[Path]) -> None:
    """Remove every file of a stage's folder that is not to be kept: half-written ones, and those of
    another plan."""
    for path in _files(folder):
        if path not in keep:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def sweep_stages(run: Path, keep: set[str]) -> None:
    """Remove the files of stages that are no part of the run, for example those of another search
    method."""
    for folder in (run / "work").glob("*"):
        if folder.name not in keep and folder != run / LISTS and folder.is_dir() and not folder.is_symlink():
            sweep(folder, set())
            with contextlib.suppress(OSError):
                folder.rmdir()


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.is_symlink() or path.is_file())
