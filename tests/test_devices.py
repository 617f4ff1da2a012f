"""Names of devices, and work dealt to threads."""

from __future__ import annotations

import threading

import pytest
import torch

from mining.config.base import validate
from mining.config.mine import EncodeSettings
from mining.config.search import SearchSettings
from mining.devices import (
    first_device,
    full_accumulation,
    on_single_threads,
    resolve_device,
    resolve_devices,
    share,
    torch_threads,
)
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


@pytest.mark.parametrize("name", ["cuda:all", "cuda:0,cuda:1"])
def test_what_uses_one_device_says_so(name):
    with pytest.raises(UsageError, match=rf"device '{name}': one device is wanted here, for example cuda:0"):
        resolve_device(name)


def test_one_device_must_be_there_as_well(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1").index == 1
    with pytest.raises(UsageError, match=r"device 'cuda:2': this machine has 2 CUDA devices"):
        resolve_device("cuda:2")


def test_the_first_of_several_devices_encodes():
    names = ["cpu", "cuda", "cuda:1", "cuda:all", "cuda:3, cuda:1"]
    assert [first_device(name) for name in names] == ["cpu", "cuda", "cuda:1", "cuda", "cuda:3"]


def settings_of(**settings):
    return validate(SearchSettings, settings, "search")


def test_device_settings_are_checked_before_a_run():
    for name in ("cpu", "cuda", "cuda:1", "cuda:0, cuda:1", "cuda:all"):
        assert settings_of(device=name).device == name
        if name in ("cpu", "cuda", "cuda:1"):
            assert validate(EncodeSettings, {"device": name}, "encode").device == name
        else:
            with pytest.raises(UsageError, match=f"'{name}': one device encodes"):
                validate(EncodeSettings, {"device": name}, "encode")
    for name in ("gpu", "cuda:", "cuda:all,cuda:0", "cuda:one", "", "cpux"):
        with pytest.raises(UsageError, match=f"device '{name}': not supported; use cpu, cuda"):
            settings_of(device=name)


def test_faiss_says_which_devices_it_does_not_use():
    with pytest.raises(UsageError, match=r"method: faiss searches on the CPU, and device is cuda: set search\.device"):
        settings_of(method="faiss", device="cuda")
    with pytest.raises(UsageError, match="backend: faiss uses one device, and device is cuda:all"):
        settings_of(backend="faiss", device="cuda:all")
    assert settings_of(backend="faiss", device="cuda:1").device == "cuda:1"


def test_mine_encodes_on_the_first_device_and_searches_on_all(bitext, monkeypatch, tmp_path):
    seen = []

    def run_mine(settings, quiet):
        seen.append((settings.encode.device, settings.search.device))
        raise UsageError("seen")

    monkeypatch.setattr("pipelines.mine.run_mine", run_mine)
    files = ("--source", tmp_path / "a", "--target", tmp_path / "b", "--output", tmp_path / "run")
    for device in ("cuda:1,cuda:0", "cuda:all", "cuda:1"):
        assert bitext("mine", *files, "--device", device).err.endswith("seen")
    assert seen == [("cuda:1", "cuda:1,cuda:0"), ("cuda", "cuda:all"), ("cuda:1", "cuda:1")]
    refused = bitext("mine", *files, "--device", "cuda", "--method", "faiss")
    assert refused.code == 2
    assert "method: faiss searches on the CPU" in refused.err


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
