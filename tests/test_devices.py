"""Names of devices, and work dealt to threads."""

from __future__ import annotations

import threading

import pytest
import torch

from mining.devices import full_accumulation, on_single_threads, resolve_devices, share, torch_threads
from mining.errors import UsageError


def test_one_several_and_all_devices(monkeypatch):
    cpu = torch.device("cpu")
    assert resolve_devices("cpu") == [cpu]
    assert resolve_devices("cpu, cpu") == resolve_devices(["cpu", "cpu"]) == [cpu, cpu]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_devices("cuda:all") == resolve_devices("cuda:0,cuda:1")
    assert [device.index for device in resolve_devices("cuda:all")] == [0, 1]
    with pytest.raises(UsageError, match=r"device 'cuda:2': this machine has 2 CUDA devices"):
        resolve_devices("cuda:0,cuda:2")


@pytest.mark.parametrize("name", ["cuda", "cuda:all", "cuda:0,cuda:1"])
def test_devices_that_are_not_there_are_named(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="has no CUDA; use cpu"):
        resolve_devices(name)


def test_unknown_devices_are_refused():
    with pytest.raises(UsageError, match="unknown; use cpu or cuda"):
        resolve_devices("cpu,gpu")


def test_units_are_done_once_by_threads_that_each_began_once():
    began, done, lock = [], [], threading.Lock()

    def begin():
        began.append(torch.get_num_threads())

        def work(unit):
            with lock:
                done.append(unit)

        return work

    with torch_threads(3):
        on_single_threads(range(50), begin)
        assert torch.get_num_threads() == 3
        on_single_threads(range(1), begin)
        on_single_threads(range(0), begin)
        assert torch.get_num_threads() == 3
    assert sorted(done) == [0, *range(50)]
    assert began == [1] * 5


def test_an_error_in_a_unit_is_raised():
    def begin():
        def work(unit):
            if unit == 3:
                raise ValueError("the third")

        return work

    with pytest.raises(ValueError, match="the third"):
        share(range(5), [begin, begin])
    units = iter(range(100_000))
    with pytest.raises(ValueError, match="the third"):
        share(units, [begin])
    assert next(units) == 4
    with pytest.raises(ValueError, match="the third"):
        on_single_threads(range(5), begin)


def test_products_are_summed_in_full_within_the_block_only():
    torch.set_float32_matmul_precision("high")
    try:
        with full_accumulation():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    finally:
        torch.set_float32_matmul_precision("highest")
