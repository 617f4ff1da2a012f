"""The parts of a checkpoint, each checked when it is taken out; errors name the file and the
key."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mining.encoder.tokenizers.psp import UNKNOWN
from mining.errors import UsageError
from mining.shown import listed, quoted, short

_LONGEST_TEXT, _MOST_TEXTS = 200, 1000


def entry(data: Mapping[Any, Any], key: str, path: Path) -> Any:
    """``data[key]``; raises UsageError when it is missing."""
    if key not in data:
        raise UsageError(f"{path}: has no key '{key}'; it has {listed(data)}")
    return data[key]


def matrix(state: Mapping[Any, Any], key: str, path: Path) -> torch.Tensor:
    """A float32 matrix (rows, d) of the parameters `state`; raises UsageError when it is none."""
    table = parameter(state, key, path)
    if table.ndim != 2 or not table.numel():
        raise UsageError(f"{path}: '{key}' has shape {tuple(table.shape)}, not that of a matrix")
    return table


def parameter(state: Mapping[Any, Any], key: str, path: Path) -> torch.Tensor:
    """A float32 tensor of the parameters `state`, copied; raises UsageError when it is none or not
    finite."""
    tensor = entry(state, key, path)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        kind = str(tensor.dtype) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise UsageError(f"{path}: '{key}' is {kind}, not a tensor of real numbers")
    odd = _oddity(tensor, path.stat().st_size)
    if odd is not None:
        raise UsageError(f"{path}: '{key}' {odd}: not a plain tensor of real numbers")
    try:
        tensor = tensor.detach().to("cpu", torch.float32).clone(memory_format=torch.contiguous_format)
    except RuntimeError as error:
        raise UsageError(f"{path}: '{key}' cannot be read ({short(str(error))})") from None
    if not bool(torch.isfinite(tensor).all()):
        raise UsageError(f"{path}: '{key}' holds numbers that are not finite")
    return tensor


def _oddity(tensor: torch.Tensor, size: int) -> str | None:
    """What keeps a tensor of a file of `size` bytes from being copied as it is; None for
    nothing."""
    if tensor.is_nested or tensor.layout != torch.strided:
        return f"is of layout {'nested' if tensor.is_nested else short(str(tensor.layout))}"
    if tensor.is_quantized or tensor.device.type != "cpu":
        return "is quantized" if tensor.is_quantized else f"has no numbers (it is on '{tensor.device.type}')"
    # A view may show one number many times: the copy would be larger than any memory.
    if tensor.numel() * tensor.element_size() > size:
        return f"is of shape {tuple(tensor.shape)}, more than the whole file can hold"
    return None


def vocabulary(data: Mapping[Any, Any], key: str, rows: int, path: Path) -> list[str]:
    """The entries of the vocabulary in the order of their rows.

    Raises UsageError unless it is a dict from text to row that names each of the `rows` rows once
    and has `UNKNOWN`.
    """
    found = entry(data, key, path)
    if not isinstance(found, dict):
        raise UsageError(f"{path}: '{key}' is a {type(found).__name__}, not a dict from piece to row")
    if len(found) != rows:
        raise UsageError(f"{path}: '{key}' has {len(found)} entries, but the table has {rows} rows")
    names: list[str | None] = [None] * rows
    for name, row in found.items():
        if not isinstance(name, str) or type(row) is not int or not 0 <= row < rows or names[row] is not None:
            raise UsageError(
                f"{path}: '{key}' maps {quoted(name)} to {quoted(row)}: not one of its rows 0 to {rows - 1}, each once"
            )
        names[row] = name
    if UNKNOWN not in found:
        raise UsageError(f"{path}: '{key}' has no entry {UNKNOWN}")
    return [name for name in names if name is not None]


class Arguments:
    """The command line a model was trained with, as its checkpoint keeps it."""

    def __init__(self, data: Mapping[Any, Any], path: Path) -> None:
        """Raises UsageError when `data` has no ``args`` or they are no ``argparse.Namespace`` (or
        dict)."""
        found = entry(data, "args", path)
        if not isinstance(found, (argparse.Namespace, dict)):
            raise UsageError(f"{path}: 'args' is a {type(found).__name__}, not an argparse.Namespace")
        self._path = path
        self.values: dict[str, Any] = dict(found if isinstance(found, dict) else vars(found))

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number; a switch is 0 or 1. Raises UsageError when it is missing (and has no
        default) or none."""
        value = self.values.get(key, default)
        if value is None:
            raise UsageError(f"{self._path}: 'args' has no '{key}', so how the model reads a text is unknown")
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole or not 0 <= value < 1 << 31:
            raise UsageError(f"{self._path}: 'args.{key}' is {quoted(value)}, not a whole number from 0 on")
        return int(value)

    def switch(self, key: str, default: int | None = None) -> bool:
        """A number that is 0 or 1."""
        value = self.number(key, default)
        if value not in (0, 1):
            raise UsageError(f"{self._path}: 'args.{key}' is {value}, neither 0 nor 1")
        return bool(value)

    def word(self, key: str, default: str) -> str:
        """A text, or `default`."""
        return short(str(self.values.get(key, default)))

    def plain(self) -> dict[str, Any]:
        """What of them is numbers and short texts, for the record."""
        return plain(self.values)


def plain(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The numbers and short texts under short names, the first thousand of them: they are kept with
    the model."""
    kept = {name: value for name, value in values.items() if _short_text(name) and _plain_value(value)}
    return dict(sorted(kept.items())[:_MOST_TEXTS])


def _short_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _plain_value(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return math.isfinite(value) if isinstance(value, float) else _short_text(value)
