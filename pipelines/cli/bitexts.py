"""Flags on the bitext, laid over the bitexts of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mining.errors import UsageError


def names(text: str | None) -> list[str] | None:
    """The names between the commas of a flag."""
    return [name.strip() for name in text.split(",")] if text is not None else None


def merge(data: Mapping[str, Any], flags: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The configuration with the dotted `flags` laid over it; those of the bitext go to the only
    one there is.

    Raises UsageError when the configuration names several bitexts that such a flag could mean.
    """
    from mining.config.base import override

    data = dict(data)
    ours = [name for name, value in flags.items() if name.startswith("bitext.") and value is not None]
    bitext = data.get("bitext")
    if ours and isinstance(bitext, list) and len(bitext) == 1:
        data["bitext"] = bitext[0]
    elif ours and isinstance(bitext, list) and any(isinstance(item, dict) for item in bitext):
        raise UsageError(
            f"{command}: the configuration names {len(bitext)} bitexts, so --{ours[0].partition('.')[2]} is ambiguous: "
            "change it there"
        )
    if ours and isinstance(data.get("bitext"), str | list):
        data["bitext"] = {"path": data["bitext"]}
    return override(data, flags)
