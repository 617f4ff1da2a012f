"""Tensors in the format safetensors, from bytes that are in memory already: no second look at the
file.

Eight bytes with the length of a JSON header, the header (by name: dtype, shape, where it starts and
ends), and the numbers end to end. What is read shares the memory of the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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

    Raises ValueError with the reason when a tensor does not lie where the header says, or two share
    a place.
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
    places = {name: _place(name, entry) for name, entry in header.items()}
    for name, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        if start != end:
            raise ValueError(f"'{short(name)}' starts at byte {start}, not at {end}")
        end = stop
    if end != len(body):
        raise ValueError(f"its tensors end at byte {end} of {len(body)}")
    return {name: _tensor(name, header[name], body[slice(*places[name])]) for name in sorted(places)}, metadata


def _place(name: str, entry: Any) -> tuple[int, int]:
    places = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(places, list) or len(places) != 2 or not all(map(_whole, places)) or places[0] > places[1]:
        raise ValueError(f"'{short(name)}' has no place")
    return places[0], places[1]


def _tensor(name: str, entry: Mapping[str, Any], data: np.ndarray) -> torch.Tensor:
    shape, dtype = entry.get("shape"), _DTYPES.get(str(entry.get("dtype")))
    if dtype is None:
        raise ValueError(f"'{short(name)}' is of type {quoted(entry.get('dtype'))}")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_whole, shape)):
        raise ValueError(f"'{short(name)}' has no shape")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"'{short(name)}' of shape {tuple(shape)} does not fill its {len(data)} bytes")
    if not len(data):
        return torch.empty(shape, dtype=dtype)
    if data.ctypes.data % dtype.itemsize:
        data = data.copy()
    return torch.from_numpy(data).view(dtype).reshape(shape)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
