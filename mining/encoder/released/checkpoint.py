"""Reading a torch checkpoint that may come from anywhere: tensors, plain data and argument lists, nothing else."""

from __future__ import annotations

import argparse
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from mining.errors import UsageError

_ASKED_FOR = re.compile(r"(?:GLOBAL|class:?|unrecognized function) (?!whose|was)([\w.<][^\s,]*)")
"""How torch names what a file wants to have built or called."""
_FAULT = re.compile(r"WeightsUnpickler error:\s*(.+?)\s*(?:\n|$)")
_MAX_REASON = 120


def load_checkpoint(path: Path) -> dict[Any, Any]:
    """The dict saved at `path` by ``torch.save``, new (zip) or old form, on the CPU.

    Only tensors, plain containers and ``argparse.Namespace`` are built: nothing in the file can run. Raises UsageError
    for a file that asks for more (the message names what), is cut short, or holds no dict.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    # Adam's state is twice the size of the table: of a zip it is never read from the disk.
    mapped = zipfile.is_zipfile(path)
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on forms of pickle it does not know
            data = torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # damaged bytes make torch's reader trip in any way
        raise UsageError(f"{path}: {_reason(str(error))}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: holds a {type(data).__name__}, not the dict of a checkpoint")
    return data


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
