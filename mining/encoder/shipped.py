"""The model that comes with the package and is used when none is named."""

from __future__ import annotations

from pathlib import Path

from mining.errors import UsageError

FOLDER = Path(__file__).resolve().parent.parent / "shipped_model"


def shipped_model() -> Path:
    """Its folder; raises UsageError when this installation has none."""
    if not (FOLDER / "config.json").is_file():
        raise UsageError(f"no model is named, and this installation comes without one ({FOLDER}): name a model folder")
    return FOLDER
