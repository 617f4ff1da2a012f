"""The run folder: made, recognised, locked so that only one run works in it, and described by
``config.resolved.yaml``, ``report.json`` and ``manifest.json``.

The folder itself may be a symbolic link. The lock and the folders of the stages must not be: a link
there is named, for the run would write and delete in another place. A link in the place of a result
gives way to the result.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import yaml

from mining import __version__
from mining.config.mine import MineConfig
from mining.errors import RunError, UsageError
from mining.io import lock
from mining.io.atomic import check_place, replacing
from mining.io.json_file import read_json, write_json
from mining.shown import safe
from pipelines.engine import StageReport
from pipelines.inputs import HashedFile, RunInputs, Signature, signature
from pipelines.records import Artefact
from pipelines.steps import VERSION, installed

MANIFEST = "manifest.json"
PAIRS = "pairs.tsv"
LOCK = ".bitext-run.lock"
#: What a run writes for the user.
RESULTS = (
    "pairs.parquet",
    "pairs.tsv",
    "dropped.parquet",
    "candidates.parquet",
    "metrics.json",
    "report.json",
    "manifest.json",
    "config.resolved.yaml",
)


def make_run_folder(path: Path) -> None:
    """Create the folder; raises UsageError when it cannot be written, holds something that is not a
    run, or something else in the place of what a run writes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = not os.path.lexists(path / LOCK) and any(path.iterdir())
        if not foreign:
            os.close(_open_lock(path / LOCK))
            _check_places(path)
    except OSError as error:
        raise UsageError(f"{path}: the run folder cannot be written: {error.strerror}; choose another output") from None
    if foreign:
        raise UsageError(f"{path}: the folder is not empty and is not a run: choose a new or empty output folder")


def _open_lock(path: Path) -> int:
    """The lock file, made if it is not there; raises UsageError for anything but a plain file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise UsageError(f"{path}: the lock of a run is a plain file, and this is none: remove it") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UsageError(f"{path}: the lock of a run is a plain file, and this is none: remove it")
    return handle


def _check_places(path: Path) -> None:
    for name in RESULTS:
        check_place(path / name)
    work = path / "work"
    if not os.path.lexists(work):
        return
    for folder in [work, *([] if work.is_symlink() or not work.is_dir() else work.iterdir())]:
        if folder.is_symlink() or not folder.is_dir():
            raise UsageError(f"{folder}: a run keeps its work in a folder here, and this is none, or a link: remove it")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a run folder; it is released however the process ends. Yields whether the
    folder holds steps of another version of this program, which count for nothing.

    Raises RunError when another run holds the lock. Where the file system has no locks, there is a
    warning instead.
    """

    def taken() -> RunError:
        facts = _lock_facts(path)
        holder = f"process {facts['pid']} on {facts['host']}" if {"pid", "host"} <= facts.keys() else "unknown process"
        return RunError(f"{path}: another run is working in this folder ({holder}): wait for it or stop it")

    handle = _open_lock(path / LOCK)
    with lock.locked(path, taken, handle):
        outdated = (path / "work").is_dir() and _lock_facts(path).get("version") != VERSION
        facts = {"host": socket.gethostname(), "pid": os.getpid(), "version": VERSION}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(facts).encode(), 0)
        yield outdated


def _lock_facts(path: Path) -> dict[str, object]:
    try:
        facts = read_json(path / LOCK)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def begin(folder: Path, config: MineConfig) -> Signature | None:
    """Write the settings, and a manifest that says that the run is not complete and whether there
    are pairs of an earlier one; returns the signature of these."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    with replacing(folder / "config.resolved.yaml") as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
    earlier = signature(folder / PAIRS)
    write_json(folder / MANIFEST, {"complete": False, "pairs_of_an_earlier_run": earlier is not None})
    return earlier


def write_report(folder: Path, stages: Sequence[StageReport], search: Mapping[str, object]) -> None:
    """``report.json``: what each stage took, and why the search was done as it was."""
    machine = {"cpus": os.cpu_count(), "system": platform.platform(), "processor": platform.machine()}
    report = {"stages": [asdict(stage) for stage in stages], "search": search, "machine": machine}
    write_json(folder / "report.json", report)


def write_manifest(folder: Path, inputs: RunInputs, files: Sequence[Artefact], facts: Mapping[str, object]) -> None:
    """``manifest.json``: what was mined by what, and what came of it; `facts` are the model, pairs,
    threshold and what has changed since the run began."""
    manifest = {
        "complete": True,
        "bitext_miner": __version__,
        "libraries": installed(),
        "inputs": {
            "source": [_file(file) for file in inputs.files.source],
            "target": [_file(file) for file in inputs.files.target],
        },
        "gold": None if inputs.gold is None else _file(inputs.gold),
        "files": {file.path: {"bytes": file.bytes, "hash": file.hash} for file in files},
        **facts,
    }
    write_json(folder / MANIFEST, manifest)


def _file(file: HashedFile) -> dict[str, str]:
    return {"path": safe(file.path), "hash": file.hash}
