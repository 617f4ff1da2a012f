"""Reading a torch checkpoint that may come from anywhere: tensors, plain data and argument lists,
nothing else. Each part is checked when it is taken out; errors name the file and the key.
"""

from __future__ import annotations

import argparse
import io
import math
import mmap
import os
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import torch

from mining.encoder.tokenizers.psp import UNKNOWN
from mining.errors import UsageError
from mining.shown import listed, quoted, short

_ASKED_FOR = re.compile(r"(?:GLOBAL|class:?|unrecognized function) (?!whose|was)([\w.<][^\s,]*)")
"""How torch names what a file wants to have built or called."""
_FAULT = re.compile(r"WeightsUnpickler error:\s*(.+?)\s*(?:\n|$)")
_MAX_REASON = 120
_LONGEST_TEXT, _MOST_TEXTS = 200, 1000


Entries = Mapping[str, object]


def entries(found: Mapping[object, object]) -> dict[str, object]:
    """A dict of a file; a key that is no text stands there as Python writes it."""
    return {key if isinstance(key, str) else quoted(key): value for key, value in found.items()}


def load_checkpoint(path: Path) -> dict[str, object]:
    """The dict saved at `path` by ``torch.save``, new (zip) or old form, on the CPU.

    Only tensors, plain containers and ``argparse.Namespace`` are built: nothing in the file can
    run. Raises UsageError for a file that asks for more (the message names what), is cut short, or
    holds no dict.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    # Adam's state is twice the size of the table: of a zip it is never read from the disk.
    mapped = zipfile.is_zipfile(path)
    _check_size(path, mapped)
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on forms of pickle it does not know
            data = torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # damaged bytes make torch's reader trip in any way
        raise UsageError(f"{path}: {_reason(str(error))}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: holds a {type(data).__name__}, not the dict of a checkpoint")
    return entries(data)


def _check_size(path: Path, zipped: bool) -> None:
    """Raise UsageError for a file from which more would come than it has: torch never compresses
    what it saves."""
    if zipped:
        try:
            with zipfile.ZipFile(path) as file:
                members = file.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UsageError(f"{path}: {_reason(str(error))}") from None
        packed = next((one.filename for one in members if one.compress_type != zipfile.ZIP_STORED), None)
        if packed is not None or sum(one.file_size for one in members) > path.stat().st_size:
            what = "parts that share their place" if packed is None else f"the compressed part '{short(packed)}'"
            raise UsageError(f"{path}: has {what}, which no checkpoint of torch has; copy it again")
    if _builds_bytes(path, zipped):
        # Of a number it would make so many zeros.
        raise UsageError(f"{path}: {_reason('GLOBAL bytearray ')}")


def _builds_bytes(path: Path, zipped: bool) -> bool:
    """Whether the instructions of a checkpoint call ``bytearray``; the word may also be one of the
    vocabulary."""
    if zipped:
        with zipfile.ZipFile(path) as file:
            data = b"".join(file.read(name) for name in file.namelist() if name.endswith("data.pkl"))
        return b"bytearray" in data and _calls_bytearray(io.BytesIO(data), len(data))
    with path.open("rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        if not size:
            return False
        with mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            return whole.find(b"bytearray") >= 0 and _calls_bytearray(raw, size)


def _calls_bytearray(stream: IO[bytes], size: int) -> bool:
    try:
        while stream.tell() < size:
            for operation, argument, _ in pickletools.genops(stream):
                if operation.name in ("GLOBAL", "STACK_GLOBAL") and str(argument or "bytearray").endswith("bytearray"):
                    return True
    except Exception:  # the tensors of the old form, or damaged
        return False
    return False


def _reason(message: str) -> str:
    asked = _ASKED_FOR.search(message)
    if asked:
        return (
            f"asks for {asked[1]}, which is neither numbers nor plain text: a file with such parts can run any code "
            "and is not opened (where none were put in, it is cut short: copy it again)"
        )
    fault = _FAULT.search(message)
    first = " ".join((fault[1] if fault else message.split(". ", maxsplit=1)[0]).split())
    return f"truncated or not a torch checkpoint ({first[:_MAX_REASON] or 'it ends early'}); copy it again"


def entry(data: Entries, key: str, path: Path) -> object:
    """``data[key]``; raises UsageError when it is missing."""
    if key not in data:
        raise UsageError(f"{path}: has no key '{key}'; it has {listed(data)}")
    return data[key]


def matrix(state: Entries, key: str, path: Path) -> torch.Tensor:
    """A float32 matrix (rows, d) of the parameters `state`; raises UsageError when it is none."""
    table = parameter(state, key, path)
    if table.ndim != 2 or not table.numel():
        raise UsageError(f"{path}: '{key}' has shape {tuple(table.shape)}, not that of a matrix")
    return table


def parameter(state: Entries, key: str, path: Path) -> torch.Tensor:
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


def vocabulary(data: Entries, key: str, rows: int, path: Path) -> list[str]:
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

    def __init__(self, data: Entries, path: Path) -> None:
        """Raises UsageError when `data` has no ``args`` or they are no ``argparse.Namespace`` (or
        dict)."""
        found = entry(data, "args", path)
        if not isinstance(found, (argparse.Namespace, dict)):
            raise UsageError(f"{path}: 'args' is a {type(found).__name__}, not an argparse.Namespace")
        self._path = path
        self.values = entries(found) if isinstance(found, dict) else vars(found)

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number; a switch is 0 or 1. Raises UsageError when it is missing (and has no
        default) or none."""
        value = self.values.get(key, default)
        if value is None:
            raise UsageError(f"{self._path}: 'args' has no '{key}', so how the model reads a text is unknown")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or not 0 <= value < 1 << 31:
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

    def plain(self) -> dict[str, object]:
        """What of them is numbers and short texts, for the record."""
        return plain(self.values)


def plain(values: Entries) -> dict[str, object]:
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
