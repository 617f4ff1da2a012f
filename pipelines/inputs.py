"""The inputs of a run: its files, gold and model as they were when it began, and what has changed
since.

A result is of the bytes whose hashes are here: steps have them in their keys and check what they
read against them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mining.config.mine import MineConfig
from mining.corpus import CorpusSpec, list_inputs
from mining.encoder.model_folder import bundled_model, folder_hash
from mining.errors import UsageError
from mining.io.files import file_hash
from pipelines.records import Artefact, Sides


class Signature(NamedTuple):
    """Shows without reading a file that it has not been written to: inode, bytes, and time of
    change (ns).

    That is the time of change of the inode (ctime): programs that copy set the time of writing
    back.
    """

    inode: int
    size: int
    changed: int


def signature(path: str | Path) -> Signature | None:
    """The signature of a file, None if there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return Signature(facts.st_ino, facts.st_size, facts.st_ctime_ns)


@dataclass(frozen=True)
class HashedFile:
    """An input file: its absolute `path`, its `name` in ids, and the hash of its bytes."""

    path: str
    name: str
    hash: str
    signature: Signature | None

    @classmethod
    def read(cls, path: str, name: str = "") -> HashedFile:
        """Hash a file; raises UsageError when it cannot be read."""
        path = os.path.abspath(path)
        # Taken before the bytes are read: what is written meanwhile shows as a difference later.
        before = signature(path)
        return cls(path, name, file_hash(path), before)

    @property
    def artefact(self) -> Artefact:
        """The file as an input of a step, which must see the same bytes."""
        return Artefact(self.path, self.hash, self.signature.size if self.signature else 0)

    def change(self) -> str | None:
        """What has become of it, None if it holds the same bytes."""
        now = signature(self.path)
        if now == self.signature:
            return None
        if now is None:
            return f"{self.path}: is gone"
        try:
            return None if file_hash(self.path) == self.hash else f"{self.path}: has changed"
        except UsageError as error:
            return str(error)


class ModelState:
    """A model folder (None: the bundled model) before it is loaded."""

    def __init__(self, path: str | None) -> None:
        self.folder = bundled_model() if path is None else Path(path)
        self._before = self._signatures()

    def _signatures(self) -> dict[str, Signature | None]:
        return {path.name: signature(path) for path in sorted(self.folder.glob("*")) if path.is_file()}

    def change(self, name: str) -> str | None:
        """What has become of it, None if it is still the model that encoders call `name`."""
        if self._signatures() == self._before:
            return None
        with contextlib.suppress(UsageError, OSError):
            # The name is this hash and the options of loading.
            if name.startswith(folder_hash(self.folder)):
                return None
        return f"{self.folder}: the model has changed"


class RunInputs:
    """The files of both sides and gold, hashed once, and the model. Raises UsageError for files
    that are not there."""

    def __init__(self, config: MineConfig, model: ModelState) -> None:
        self.model = model
        self.specs = Sides(config.source, config.target)
        self.files = self.specs.map(_hashed)
        self.gold = HashedFile.read(config.gold) if config.gold else None

    def changes(self, name: str) -> list[str]:
        """What has changed since, a line each; `name` is what the encoder was called. Reads only
        what looks changed."""
        found = [
            *_changed_inputs("source", self.specs.source, self.files.source),
            *_changed_inputs("target", self.specs.target, self.files.target),
            self.gold.change() if self.gold else None,
            self.model.change(name),
        ]
        # A file may be on both sides.
        return list(dict.fromkeys(line for line in found if line is not None))


def _hashed(spec: CorpusSpec) -> list[HashedFile]:
    return [HashedFile.read(file.path, file.name) for file in list_inputs(spec)]


def _changed_inputs(side: str, spec: CorpusSpec, files: list[HashedFile]) -> Iterator[str | None]:
    try:
        now = {os.path.abspath(file.path) for file in list_inputs(spec)}
    except UsageError as error:
        yield f"the files of the {side} side can no longer be found ({error})"
        return
    yield from (f"{path}: is a new file of the {side} side" for path in sorted(now - {file.path for file in files}))
    for file in files:
        gone = None if file.path in now else f"{file.path}: is no longer a file of the {side} side"
        yield file.change() or gone
