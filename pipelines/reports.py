"""What a run tells about itself: its settings, when it begins; its cost and what it is made of,
when it has ended."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mining import __version__
from mining.config.mine import MineConfig
from mining.io.atomic import replacing
from mining.shown import safe
from pipelines.artefacts import Marker, write_json
from pipelines.given import Given, GivenFile, Signature, signature
from pipelines.versions import installed

MANIFEST = "manifest.json"
PAIRS = "pairs.tsv"


def begin(folder: Path, config: MineConfig) -> Signature | None:
    """Write the settings, and a manifest that says that the run is not complete and whether there
    are pairs of an earlier one; returns the signature of these."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    with replacing(folder / "config.resolved.yaml") as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
    earlier = signature(folder / PAIRS)
    write_json(folder / MANIFEST, {"complete": False, "pairs_of_an_earlier_run": earlier is not None})
    return earlier


def write_report(folder: Path, stages: Sequence[dict[str, Any]], search: Mapping[str, Any]) -> None:
    """``report.json``: the cost of each stage, and why the search was done as it was."""
    machine = {"cpus": os.cpu_count(), "system": platform.platform(), "processor": platform.machine()}
    write_json(folder / "report.json", {"stages": stages, "search": search, "machine": machine})


def write_manifest(folder: Path, given: Given, files: Sequence[Marker], facts: Mapping[str, Any]) -> None:
    """``manifest.json``: what was mined by what, and what came of it; `facts` are the model, pairs,
    threshold and what has changed since the run began."""
    manifest = {
        "complete": True,
        "bitext_miner": __version__,
        "libraries": installed(),
        "inputs": {side: [_file(file) for file in given.sides[side]] for side in given.sides},
        "gold": None if given.gold is None else _file(given.gold),
        "files": {path: facts for marker in files for path, facts in marker.files.items()},
        **facts,
    }
    write_json(folder / MANIFEST, manifest)


def _file(file: GivenFile) -> dict[str, str]:
    return {"path": safe(file.path), "hash": file.hash}


def model_facts(path: str | None, models: Mapping[str, str], dim: int) -> dict[str, Any]:
    """Path (None: the bundled model), the hash (of each side, where they differ) and the
    dimension."""
    same = models["source"] == models["target"]
    return {"path": path, "hash": models["source"] if same else dict(models), "dim": dim}
