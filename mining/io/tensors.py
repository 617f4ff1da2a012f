"""Tensors in the format safetensors, from bytes that are in memory already: no second look at the
file.

Eight bytes with the length of a JSON header, the header (by name: dtype, shape, where it starts and
ends), and the numbers end to end. What is read shares the memory of the bytes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from mining.io.json_file import parse_json
from mining.shown import quoted, short

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_METADATA = "__metadata__"
_LENGTH = 8
_LONGEST_HEADER = 1 << 24


def read_tensors(data: np.ndarray) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors, by name in the order of the names, and the metadata of `data`, (size,) uint8.

    Raises ValueError with the reason when a tensor does not lie where the header says, or two
    overlap.
    """
    size = int.from_bytes(data[:_LENGTH].tobytes(), "little")
    if len(data) < _LENGTH or size > min(_LONGEST_HEADER, len(data) - _LENGTH):
        raise ValueError("its header is cut short")
    header = parse_json(data[_LENGTH : _LENGTH + size].tobytes())
    if not isinstance(header, dict):
        raise ValueError("its header names no tensors")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not texts")
    body, end = data[_LENGTH + size :], 0
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            raise ValueError(f"'{short(name)}' starts at byte {entry.start}, not at {end}")
        end = entry.stop
    if end != len(body):
        raise ValueError(f"its tensors end at byte {end} of {len(body)}")
    return {name: _tensor(entries[name], body) for name in sorted(entries)}, metadata


class _Entry(NamedTuple):
    """What the header says of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int
    """bytes after the header"""


def _entry(name: str, entry: object) -> _Entry:
    """Raises ValueError with the name of the tensor for what cannot be."""
    facts: dict[str, object] = entry if isinstance(entry, dict) else {}
    offsets, shape = _whole_numbers(facts.get("data_offsets")), _whole_numbers(facts.get("shape"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"'{short(name)}' has no place")
    dtype = _DTYPES.get(str(facts.get("dtype")))
    if dtype is None:
        raise ValueError(f"'{short(name)}' is of type {quoted(facts.get('dtype'))}")
    if shape is None or len(shape) > 8:
        raise ValueError(f"'{short(name)}' has no shape")
    size = offsets[1] - offsets[0]
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"'{short(name)}' of shape {shape} does not fill its {size} bytes")
    return _Entry(dtype, shape, *offsets)


def _tensor(entry: _Entry, body: np.ndarray) -> torch.Tensor:
    data = body[entry.start : entry.stop]
    if not len(data):
        return torch.empty(entry.shape, dtype=entry.dtype)
    if data.ctypes.data % entry.dtype.itemsize:
        data = data.copy()
    return torch.from_numpy(data).view(entry.dtype).reshape(entry.shape)


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers from 0 on, or None."""
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one < 1 << 62 for one in value):
        return None
    return tuple(value)
