"""Tensors from the bytes of a safetensors file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from mining.io.tensors import read_tensors


def made(header: Any, body: bytes = b"", *, pad: int = 0) -> np.ndarray:
    text = (header if isinstance(header, bytes) else json.dumps(header).encode()) + b" " * pad
    return np.frombuffer(bytearray(len(text).to_bytes(8, "little") + text + body), np.uint8)


def entry(dtype: str = "U8", shape: Any = (2,), places: Any = (0, 2)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": places}


def test_what_was_saved_comes_back() -> None:
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
    kinds += (torch.int8, torch.uint8, torch.bool)
    tensors = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds}
    tensors |= {"none": torch.empty(0, 3), "number": torch.tensor(2.5)}
    data = np.frombuffer(bytearray(save(tensors, {"state": "{}"})), np.uint8)
    found, metadata = read_tensors(data)
    assert metadata == {"state": "{}"}
    assert list(found) == sorted(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)


def test_memory_is_shared_unless_numbers_lie_askew() -> None:
    numbers = np.array([1.5, 2.5], np.float32).tobytes()
    for pad in range(8):
        data = made({"a": entry("F32", [2], [0, 8])}, numbers, pad=pad)
        assert read_tensors(data)[0]["a"].tolist() == [1.5, 2.5]


def test_eight_dimensions_are_read() -> None:
    assert read_tensors(made({"a": entry(shape=[1] * 7 + [2])}, b"ab"))[0]["a"].shape == (1,) * 7 + (2,)


FAULTY = [
    (np.zeros(0, np.uint8), "cut short"),
    (np.zeros(7, np.uint8), "cut short"),
    (made(b"")[:8], "Expecting value"),
    (np.full(16, 255, np.uint8), "cut short"),
    (np.concatenate([np.array([3, 0, 0, 0, 0, 0, 0, 0], np.uint8), np.frombuffer(b"{}", np.uint8)]), "cut short"),
    (made(b"[]"), "names no tensors"),
    (made(b"[" * 50_000), "nested too deeply"),
    (made({"__metadata__": []}), "metadata are not texts"),
    (made({"__metadata__": {"a": 1}}), "metadata are not texts"),
    (made({"a": 1}), "'a' has no place"),
    (made({"a": {}}), "'a' has no place"),
    (made({"a": entry(places=[0])}, b"ab"), "'a' has no place"),
    (made({"a": entry(places=[2, 0])}, b"ab"), "'a' has no place"),
    (made({"a": entry(places=[0, 2.0])}, b"ab"), "'a' has no place"),
    (made({"a": entry(places=[-2, 0])}, b"ab"), "'a' has no place"),
    (made({"a": entry(places=[0, True])}, b"a"), "'a' has no place"),
    (made({"a": entry(places=[1, 3])}, b"abc"), "'a' starts at byte 1, not at 0"),
    (made({"a": entry(), "b": entry()}, b"ab"), "starts at byte 0, not at 2"),
    (made({"a": entry()}, b"abc"), "end at byte 2 of 3"),
    (made({"a": entry()}, b"a"), "end at byte 2 of 1"),
    (made({"a": entry("C64")}, b"ab"), "'a' is of type 'C64'"),
    (made({"a": entry("F8_E4M3" * 99)}, b"ab"), "'a' is of type 'F8_E4M3"),
    (made({"a": entry(shape=2)}, b"ab"), "'a' has no shape"),
    (made({"a": entry(shape=[-2])}, b"ab"), "'a' has no shape"),
    (made({"a": entry(shape=[float("nan")])}, b"ab"), "'a' has no shape"),
    (made({"a": entry(shape=[1] * 9)}, b"ab"), "'a' has no shape"),
    (made({"a": entry(shape=[1 << 40, 300])}, b"ab"), "does not fill its 2 bytes"),
    (made({"a" * 10_000: entry(shape=[3])}, b"ab"), "a' of shape|a\\.\\.\\.' of shape"),
]


@pytest.mark.parametrize(("data", "reason"), FAULTY, ids=[str(n) for n in range(len(FAULTY))])
def test_places_that_cannot_be_are_refused(data: np.ndarray, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        read_tensors(data)
    assert len(str(error.value)) < 200
