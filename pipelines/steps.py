"""Stages, their steps, and what steps leave behind: files that are renamed into place, and a marker
that is written last.

A stage is a function ``run(inputs, params, outputs) -> report`` over typed records; a step is its
work on one shard spec. The key of a step hashes everything that its result depends on: stage,
version of the code, parameters, versions of libraries and the content hashes of its inputs. A
marker with the same key whose files have the recorded sizes and hashes means that the step is done;
anything else means that it is done again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter, with_config

from mining import __version__
from mining.errors import RunError
from mining.io.atomic import TEMPORARY, check_place, put_in_place, replacing
from mining.io.files import file_hash
from mining.io.json_file import json_digest, json_text, parse_json, read_json, write_json
from pipelines.records import LISTS, Artefact, artefacts, key_facts

#: What the result of every step depends on, beside the libraries that its stage names: numba
#: compiles the kernels, pyarrow writes Parquet, torch multiplies.
ALWAYS = ("bitext_miner", "numpy")
#: Distributions that bring a library, where it has another name or may come from several.
_DISTRIBUTIONS = {"faiss": ("faiss-cpu", "faiss-gpu")}
#: What the manifest lists for a run.
RECORDED = (
    "apache-beam",
    "faiss-cpu",
    "faiss-gpu",
    "numba",
    "numpy",
    "pyarrow",
    "safetensors",
    "sentencepiece",
    "torch",
)


@functools.cache
def version(name: str) -> str:
    """The version of one of them, "none" for a library that is not installed."""
    if name == "bitext_miner":
        return __version__
    if name == "unicode":
        return unicodedata.unidata_version
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The versions that a result depends on which was made by these libraries."""
    return {name: version(name) for name in sorted({*ALWAYS, *libraries})}


def check_versions(wanted: dict[str, str]) -> None:
    """Raise RunError when this worker has other versions than the driver put into the step's
    key."""
    for name, there in wanted.items():
        if version(name) != there:
            raise RunError(
                f"a worker ({platform.node()}) has {name} {version(name)}, but the run was started with {there}: "
                "install the same versions everywhere"
            )


def installed() -> dict[str, str]:
    """Versions for the manifest: of Python, its Unicode tables and the libraries that are
    installed."""
    found = {name: version(name) for name in RECORDED if version(name) != "none"}
    return {"python": platform.python_version(), "unicode": version("unicode"), **found}


#: Part of every key: raise it when a stage computes or writes something else from the same inputs.
VERSION = 4
#: What reading a damaged file of a step may end in.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

I = TypeVar("I")  # noqa: E741
P = TypeVar("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Stage(Generic[I, P, R]):
    """A stage: its name, its function, the libraries that its result depends on, and whether its
    steps run on accelerators when the configuration asks for them."""

    def __init__(
        self, name: str, run: Callable[[I, P, Outputs], R], libraries: tuple[str, ...], accelerated: bool
    ) -> None:
        self.name, self.run, self.libraries, self.accelerated = name, run, libraries, accelerated

    @functools.cached_property
    def marker(self) -> TypeAdapter[Marker[R]]:
        """Reads markers of this stage, strictly."""
        report: Any = get_type_hints(self.run)["return"]
        return TypeAdapter(Marker[report])

    def step(
        self,
        run: str | Path,
        name: str,
        inputs: I,
        params: P,
        destination: str = "",
        libraries: Sequence[str] = (),
    ) -> Step[R]:
        """One step, `name`, in the run folder `run`; `libraries` are those that not every step of
        the stage depends on."""
        function = f"{self.run.__module__}:{self.run.__name__}"
        versions = versions_of([*self.libraries, *libraries])
        return Step(str(run), function, self.name, name, inputs, params, destination, versions)


def stage(
    name: str, *libraries: str, accelerated: bool = False
) -> Callable[[Callable[[I, P, Outputs], R]], Stage[I, P, R]]:
    """Decorator that makes a stage of a function of its module."""
    return lambda run: Stage(name, run, libraries, accelerated)


@dataclass(frozen=True)
class Step(Generic[R_co]):
    """One shard spec, whose result is an R: small, plain data that any runner can carry.

    `function` says where the stage is, ``module:name``. `destination` is the folder of the outputs,
    relative to the run folder; "" is that of the stage.
    """

    run: str
    function: str
    stage: str
    name: str
    inputs: object
    params: object
    destination: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def key(self) -> str:
        """Hex digest over everything that the result depends on; computed once."""
        facts = [VERSION, self.stage, self.name, key_facts(self.params), key_facts(self.inputs)]
        facts += [self.destination, self.versions]
        return json_digest(facts)

    def find_stage(self) -> Stage[Any, Any, R_co]:
        """The stage, its module imported."""
        module, name = self.function.split(":")
        found: Stage[Any, Any, R_co] = getattr(importlib.import_module(module), name)
        return found

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
        """Where a long step writes how far it is."""
        return Path(self.run, "work", self.stage, f"{self.name}.progress")

    def done(self) -> float:
        """The share of this step that is done, 0 to 1, as far as its worker has written."""
        if os.path.exists(self.marker_path):
            return 1.0
        try:
            done = float(self.progress_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0.0
        return done if 0 <= done <= 1 else 0.0


@dataclass(frozen=True)
class Cost:
    """What a step took: `peak_memory` in bytes, of the process; `worker` is ``host:process``."""

    seconds: float
    cpu_seconds: float
    peak_memory: int
    worker: str


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Marker(Generic[R_co]):
    """What a finished step leaves: the report, which names every file that it wrote (paths relative
    to the run folder), the cost, and the versions of what it used."""

    key: str
    report: R_co
    cost: Cost
    versions: dict[str, str]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Failure:
    """Why a step failed: `known` for an error that its user can mend."""

    message: str
    exit_code: Literal[1, 2]
    known: bool
    traceback: str
    worker: str


_FAILURE = TypeAdapter(Failure)


def parse_failure(text: str) -> Failure:
    """A failure from JSON; raises ValueError when it is none."""
    return _FAILURE.validate_json(text, strict=True)


def read_failure(step: Step[object]) -> Failure | None:
    """The failure of a step, None if it has none; raises RunError when it cannot be read."""
    try:
        return parse_failure(step.error_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        why = " ".join(str(error).split())
        raise RunError(f"stage {step.stage}, {step.name} failed, and {step.error_path} cannot be read: {why}") from None


def _seal(data: dict[str, object]) -> str:
    return hashlib.blake2b(json_text(data).encode(), digest_size=16).hexdigest()


def write_marker(step: Step[object], marker: Marker[object]) -> None:
    """Write the marker of a step, with a digest of its contents."""
    # As it will be read: names of files can be shown then.
    data = parse_json(json_text(asdict(marker)))
    # Not durable: a sync would wait for all files of the stage, and a marker that a power cut has
    # damaged is told by its seal and by the hashes of its files.
    write_json(step.marker_path, {**data, "seal": _seal(data)}, durable=False)


def read_marker(step: Step[R]) -> Marker[R] | None:
    """The marker of a step if it is whole and has its key, else None."""
    try:
        data = read_json(step.marker_path)
        if data.pop("seal") != _seal(data) or data["key"] != step.key:
            return None
        return step.find_stage().marker.validate_json(json_text(data), strict=True)
    except _DAMAGE:
        return None


def verified_marker(step: Step[R]) -> Marker[R] | None:
    """The marker of a step if it has its key and every file is there with its size and hash, else
    None."""
    marker = read_marker(step)
    if marker is None:
        return None
    for file in artefacts(marker.report):
        path = Path(step.run, file.path)
        try:
            if path.stat().st_size != file.bytes or file_hash(str(path)) != file.hash:
                return None
        except OSError:
            return None
    return marker


class Outputs:
    """The files of a running step, under temporary names until `commit`. `name` is that of the
    step, `folder` where its files go."""

    def __init__(self, step: Step[object]) -> None:
        self.step, self.name, self.folder = step, step.name, step.folder
        self._suffix = f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
        self._files: list[str] = []
        self._reported = time.monotonic()
        step.marker_path.parent.mkdir(parents=True, exist_ok=True)

    def progress(self, done: float) -> None:
        """Write the share of the step that is done (0 to 1), twice a second at most."""
        now = time.monotonic()
        if now - self._reported >= 0.5:
            self._reported = now
            # It is for the eye only: a full disk is met where a file of the step is written.
            with contextlib.suppress(OSError), replacing(self.step.progress_path, cache=True) as temporary:
                Path(temporary).write_text(f"{done:.4f}", encoding="utf-8")

    def path(self, name: str) -> str:
        """A temporary path for the output file `name`; raises UsageError when it cannot have that
        name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        check_place(self.folder / name)
        self._files.append(name)
        return self._temporary(name)

    def _temporary(self, name: str) -> str:
        return f"{self.folder / name}{self._suffix}"

    def artefact(self, name: str) -> Artefact:
        """The whole output file `name`, for the report."""
        path = self._temporary(name)
        return Artefact(os.path.relpath(self.folder / name, self.step.run), file_hash(path), os.path.getsize(path))

    def save(self, name: str, array: NDArray[Any]) -> Artefact:
        """Write an array as the output file `name`."""
        with open(self.path(name), "wb") as out:
            np.save(out, array, allow_pickle=False)
        return self.artefact(name)

    def commit(self, report: object, cost: Cost) -> None:
        """Rename the files, all of which the report must name, then write the marker."""
        named = [file.path for file in artefacts(report)]
        written = [os.path.relpath(self.folder / name, self.step.run) for name in self._files]
        if sorted(named) != sorted(written):
            raise RuntimeError(f"the report names {named}, and {written} were written")
        for name in self._files:
            # Of the files between two stages a power cut may leave a part, which their hashes show.
            put_in_place(self._temporary(name), self.folder / name, durable=bool(self.step.destination))
        write_marker(self.step, Marker(self.step.key, report, cost, self.step.versions))

    def discard(self) -> None:
        """Remove what a failed step left."""
        for name in self._files:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary(name))


def sweep(folder: Path, keep: Iterable[Path] = ()) -> None:
    """Remove every file of a stage's folder that is not to be kept: half-written ones, and those of
    another plan."""
    if folder.is_dir():
        kept = set(keep)
        for path in list(folder.iterdir()):
            if path not in kept and (path.is_symlink() or path.is_file()):
                path.unlink(missing_ok=True)


def sweep_stages(run: Path, keep: set[str]) -> None:
    """Remove the files of stages that are no part of the run, for example those of another search
    method."""
    for folder in (run / "work").glob("*"):
        if folder.name not in keep and folder != run / LISTS and folder.is_dir() and not folder.is_symlink():
            sweep(folder)
            with contextlib.suppress(OSError):
                folder.rmdir()
