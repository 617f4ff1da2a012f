"""The pass over tiles for GPUs, on the CPU: several devices, memory that runs out, half
precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mining.errors import UsageError
from mining.search import device_tiles
from mining.search.device_tiles import LARGEST_TILE, LEAST_TILE, TorchProposer, planned_tiles
from mining.search.exact import nearest_neighbours, reference_neighbours
from mining.search.methods import Runtime
from mining.search.methods.exact import ExactSettings, proposer
from mining.search.tiles import FaissProposer, TileProposer
from tests.search.test_exact import same, unit_rows


def small_memory(monkeypatch: pytest.MonkeyPatch, largest: int) -> list[int]:
    """A device on which tiles of more than `largest` entries do not fit; returns the sizes that
    were tried."""
    tried: list[int] = []

    class Small(device_tiles._Device):
        def product(self, left, right):
            tried.append(len(left) * len(right))
            if len(left) * len(right) > largest:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().product(left, right)

    monkeypatch.setattr(device_tiles, "_Device", Small)
    return tried


@pytest.mark.parametrize("devices", ["cpu", ["cpu", "cpu"]])
def test_tiles_are_halved_until_they_fit(monkeypatch, devices):
    tried = small_memory(monkeypatch, 512 * 512)
    source, target = unit_rows(1100, 8, 1), unit_rows(1500, 8, 2)
    propose = TorchProposer(devices, 1024, 1024)
    forward, backward = nearest_neighbours(source, target, 3, propose)
    assert same(forward, reference_neighbours(source, target, 3))
    assert same(backward, reference_neighbours(target, source, 3))
    assert max(tried) == 1024 * 1024
    assert sorted(tried)[-2 if devices == "cpu" else -3] == 512 * 512


def test_memory_that_does_not_hold_the_least_tile_is_an_error(monkeypatch):
    small_memory(monkeypatch, 10)
    with pytest.raises(torch.OutOfMemoryError):
        nearest_neighbours(unit_rows(300, 8, 1), unit_rows(300, 8, 2), 3, TorchProposer("cpu", 1024, 1024))


def test_more_devices_than_tiles_and_a_device_without_work():
    source, target = unit_rows(40, 8, 1), unit_rows(50, 8, 2)
    forward, backward = nearest_neighbours(source, target, 3, TorchProposer(["cpu"] * 5, 64, 64))
    assert same(forward, reference_neighbours(source, target, 3))
    assert same(backward, reference_neighbours(target, source, 3))


def test_an_error_of_one_device_is_raised(monkeypatch):
    def broken(self, first):
        raise RuntimeError("device lost")

    monkeypatch.setattr(device_tiles._Device, "take", broken)
    with pytest.raises(RuntimeError, match="device lost"):
        TorchProposer(["cpu", "cpu"], 32, 32)(unit_rows(40, 8, 1), unit_rows(50, 8, 2), 3)


def test_planned_tiles_grow_with_memory_and_fit_into_it():
    sides = (250_000, 250_000)
    sizes = [planned_tiles(gigabytes << 30, 300, 8, sides, 2)[0] for gigabytes in (0, 1, 4, 16, 80)]
    assert sizes == sorted(sizes)
    assert sizes[0] == LEAST_TILE
    assert sizes[-1] == LARGEST_TILE
    assert sizes[1] * sizes[1] * 2 < 1 << 30


def test_halves_still_give_exact_lists():
    source, target = unit_rows(90, 64, 1), unit_rows(200, 64, 2, copies=20)
    propose = TorchProposer("cpu", halves=True)
    forward, backward = nearest_neighbours(source, target, 4, propose)
    assert same(forward, reference_neighbours(source, target, 4))
    assert same(backward, reference_neighbours(target, source, 4))
    assert propose(source, target, 8)[0].rounding.relative > 0
    assert propose.in_float32()(source, target, 8)[0].rounding.relative == 0


def test_a_gpu_is_planned_from_its_free_memory(monkeypatch):
    propose = TorchProposer(["cpu", "cpu"])
    propose.device = torch.device("cuda")
    propose.halves = True
    free = {0: 40 << 30, 1: 2 << 30}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[len(seen)], seen.append(device))[:1])
    seen: list[torch.device] = []
    plan = propose.plan(300, (100_000, 200_000), 8)
    assert len(seen) == 2
    assert plan.dtype == torch.float16
    assert plan.resident
    assert plan.tiles == planned_tiles((2 << 30) - 100_000 * 304 * 2, 300, 8, (100_000, 200_000), 2)
    assert plan.smaller().tiles == (plan.tiles[0] // 2, plan.tiles[1] // 2)
    assert not plan.smaller().resident


def test_the_proposer_follows_the_device_setting():
    assert isinstance(proposer(ExactSettings(), Runtime()), TileProposer)
    assert proposer(ExactSettings(source_tile=64, target_tile=128), Runtime()).source_tile == 64
    assert proposer(ExactSettings(device="cpu,cpu"), Runtime()).devices == [torch.device("cpu")] * 2


class GpuFaiss:
    """Stands for a faiss with GPUs: notes what is made, and on which device what is searched."""

    METRIC_INNER_PRODUCT = 0

    def __init__(self):
        self.made, self.calls = [], []

    def StandardGpuResources(self):  # noqa: N802
        self.made.append(object())
        return self.made[-1]

    def knn_gpu(self, resources, queries, base, count, metric, device):
        self.calls.append((self.made.index(resources), device))
        near = queries @ base.T
        places = np.argsort(-near, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(near, places, 1), places


def test_faiss_makes_gpu_resources_once_and_searches_the_device_it_was_given(monkeypatch):
    faiss = GpuFaiss()
    monkeypatch.setattr("mining.search.faiss_index.import_faiss", lambda: faiss)
    monkeypatch.setattr("mining.search.tiles.resolve_device", torch.device)
    source, target = unit_rows(20, 8, 1), unit_rows(30, 8, 2)
    for device in ("cuda:1", "cuda:0", "cuda:1", "cuda"):
        proposal, _ = FaissProposer(device, 8, 8)(source, target, 3)
        assert np.array_equal(proposal.positions[:, 0], (source @ target.T).argmax(1))
    assert len(faiss.made) == 3
    assert set(faiss.calls) == {(0, 1), (1, 0), (2, -1)}
    assert len(faiss.calls) == 4 * 2 * 3 * 4


def test_a_faiss_without_gpus_is_refused(monkeypatch):
    monkeypatch.setattr("mining.search.tiles.resolve_device", torch.device)
    monkeypatch.setattr("mining.search.faiss_index.import_faiss", object)
    with pytest.raises(UsageError, match=r"search\.backend: faiss on cuda:1: the installed faiss has no GPU support"):
        FaissProposer("cuda:1")
