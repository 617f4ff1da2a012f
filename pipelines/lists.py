"""Lists of files that many steps read.

The search of a group of clusters reads from every shard, and so do several other steps. A list of
their files is written once, named by its hash, and the step carries the name: an element stays
small however many shards there are.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mining.errors import RunError
from mining.io.atomic import replace_file
from mining.io.json_file import parse_json

FOLDER = "work/lists"


@dataclass(frozen=True)
class FileList:
    """Files in order of their shards or chunks: `paths` as they can be opened and, where it is
    told, the `rows` of each."""

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


def _path(run: str | Path, digest: str) -> Path:
    return Path(run, FOLDER, f"{digest}.json")


def write_list(run: str | Path, files: Mapping[str, str], rows: Sequence[int] = ()) -> str:
    """Write a list of files (paths, absolute or relative to the run folder, with their hashes)
    unless it is there; returns its hash, by which steps name it."""
    data = json.dumps({"files": list(files.items()), "rows": list(rows)}).encode()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    path = _path(run, digest)
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    return digest


@functools.lru_cache(maxsize=64)
def read_list(run: str, digest: str) -> FileList:
    """The list of this hash; raises RunError when it is missing or damaged."""
    path = _path(run, digest)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}: run the command again") from None
    if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        raise RunError(f"{path}: the list of files is damaged: run the command again")
    facts = parse_json(data)
    return FileList([str(Path(run, file)) for file, _ in facts["files"]], facts["rows"])


def sweep_lists(run: Path, keep: Iterable[str]) -> None:
    """Remove the lists that are not to be kept."""
    kept = {_path(run, digest) for digest in keep}
    for path in Path(run, FOLDER).glob("*"):
        if path not in kept:
            path.unlink(missing_ok=True)
