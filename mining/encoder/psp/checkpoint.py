"""Reading a torch checkpoint that may come from anywhere: tensors, plain data and argument lists,
nothing else."""

from __future__ import annotations

import argparse
import io
import mmap
import os
import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from mining.errors import UsageError
from mining.shown import short

_ASKED_FOR = re.compile(r"(?:GLOBAL|class:?|unrecognized function) (?!whose|was)([\w.<][^\s,]*)")
"""How torch names what a file wants to have built or called."""
_FAULT = re.compile(r"WeightsUnpickler error:\s*(.+?)\s*(?:\n|$)")
_MAX_REASON = 120


def load_checkpoint(path: Path) -> dict[Any, Any]:
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
    return data


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
            return whole.find(b"bytearray") >= 0 and _calls_bytearray(whole, size)


def _calls_bytearray(stream: Any, size: int) -> bool:
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
