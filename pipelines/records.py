"""Records that steps are made of: which files they read and write, by role, on two sides.

The inputs and parameters of a step and what it reports are frozen dataclasses. `Artefact` and
`Listing` stand in them for files: a step's key covers the hashes, not the paths, so that a run
folder can be moved.

The search of a group of clusters reads from every shard, and so do several other steps. A `Listing`
names a list of files that is written once: a step stays small however many shards there are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from pydantic import BaseModel

from mining.errors import RunError
from mining.io.atomic import replace_file
from mining.io.json_file import parse_json

T = TypeVar("T")
U = TypeVar("U")

LISTS = "work/lists"
#: Metadata of a field of parameters that never changes the result (threads, device, tile sizes)
#: and is no part of the key: ``threads: int = field(metadata=NOT_IN_KEY)``.
NOT_IN_KEY = MappingProxyType({"key": False})


@dataclass(frozen=True)
class Artefact:
    """A file: its path, absolute or relative to the run folder, the hash of its bytes and their
    number."""

    path: str
    hash: str
    bytes: int


@dataclass(frozen=True)
class FileList:
    """Files in order of their shards or chunks: `paths` as they can be opened and, where it is
    known, the `rows` of each."""

    paths: list[str]
    rows: list[int]

    @property
    def firsts(self) -> list[int]:
        """The number of the first row of each file."""
        return self.limits[:-1]

    @property
    def limits(self) -> list[int]:
        """Where the rows of each file begin, and where the last ones end."""
        return [0, *itertools.accumulate(self.rows)]

    @property
    def total(self) -> int:
        """Rows of all files."""
        return sum(self.rows)


@dataclass(frozen=True)
class Listing:
    """The name of a list of files: the hash of what the list holds. `run` is the run folder, known
    where a step is done."""

    hash: str
    run: str = ""

    def read(self) -> FileList:
        """The files; raises RunError when the list is missing or damaged."""
        return _read_list(self.run, self.hash)


@dataclass(frozen=True)
class Sides(Generic[T]):
    """One of something for the source and one for the target."""

    source: T
    target: T

    def __iter__(self) -> Iterator[T]:
        yield self.source
        yield self.target

    def map(self, function: Callable[[T], U]) -> Sides[U]:
        """The results of a function for both sides."""
        return Sides(function(self.source), function(self.target))

    def with_other(self, other: Sides[U]) -> Sides[tuple[T, U]]:
        """Pairs of what two of them hold for each side."""
        return Sides((self.source, other.source), (self.target, other.target))


def files_of(value: object) -> Iterator[Artefact | Listing]:
    """All artefacts and listings in a record, in the order of its fields."""
    if isinstance(value, Artefact | Listing):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from files_of(getattr(value, field.name))
    elif isinstance(value, list):
        for item in value:
            yield from files_of(item)


def artefacts(value: object) -> list[Artefact]:
    """All artefacts in a record, in the order of its fields."""
    return [file for file in files_of(value) if isinstance(file, Artefact)]


def key_facts(value: object) -> object:
    """What the key of a step covers of a record, as plain data: files by their hashes, and no field
    that is `NOT_IN_KEY`. Settings may say in `execution` which of them never change the result."""
    if isinstance(value, Artefact | Listing):
        return value.hash
    if isinstance(value, BaseModel):
        return value.model_dump(exclude=set(getattr(value, "execution", ())))
    if dataclasses.is_dataclass(value):
        covered = (field.name for field in dataclasses.fields(value) if field.metadata.get("key", True))
        return {name: key_facts(getattr(value, name)) for name in covered}
    return [key_facts(item) for item in value] if isinstance(value, list) else value


def located(value: T, run: str) -> T:
    """A record as a step needs it: paths of artefacts can be opened, and lists can be read."""
    return cast(T, _located(value, run))


def _located(value: object, run: str) -> object:
    if isinstance(value, Artefact):
        return dataclasses.replace(value, path=str(Path(run, value.path)))
    if isinstance(value, Listing):
        return dataclasses.replace(value, run=run)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return dataclasses.replace(value, **{field.name: _located(getattr(value, field.name), run) for field in fields})
    return [_located(item, run) for item in value] if isinstance(value, list) else value


def _path(run: str | Path, digest: str) -> Path:
    return Path(run, LISTS, f"{digest}.json")


def write_list(run: str | Path, files: Iterable[Artefact], rows: Sequence[int] = ()) -> Listing:
    """Write a list of files unless it is there; returns its name."""
    data = json.dumps({"files": [(file.path, file.hash) for file in files], "rows": list(rows)}).encode()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    path = _path(run, digest)
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, durable=False)
    return Listing(digest)


@functools.lru_cache(maxsize=64)
def _read_list(run: str, digest: str) -> FileList:
    path = _path(run, digest)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}: run the command again") from None
    if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        raise RunError(f"{path}: the list of files is damaged: run the command again")
    facts = parse_json(data)
    return FileList([str(Path(run, file)) for file, _ in facts["files"]], facts["rows"])


def sweep_lists(run: Path, keep: Iterable[Listing]) -> None:
    """Remove the lists that are not to be kept."""
    kept = {_path(run, listing.hash) for listing in keep}
    for path in Path(run, LISTS).glob("*"):
        if path not in kept:
            path.unlink(missing_ok=True)
