"""Results that are the same bytes on every processor: run in processes that are told to be older
ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

#: Prints one line a result. Means of 50 rows are seldom exact, so what is rounded after them shows
#: how it was computed.
RESULTS = """
import hashlib
import numpy as np
from mining import load_encoder
from mining.neighbour_scores import list_scores, neighbour_means
from mining.search.cluster_join import search_clusters
from mining.search.clusters import train_clusters
from mining.search.exact import nearest_neighbours
from mining.search.vectors import quantise, to_stored, vector_shard

def show(name, *arrays):
    print(name, hashlib.blake2b(b"".join(a.tobytes() for a in arrays), digest_size=8).hexdigest())

def rows(count, dim, seed):
    chance = np.random.default_rng(seed)
    table = chance.normal(size=(count, dim))
    table[:, 0] += 240 * np.abs(chance.normal(size=count))
    return (table / np.sqrt((table**2).sum(1))[:, None]).astype(np.float32)

for dtype in ("float32", "float16", "int8"):
    texts = [f"sentence {n} of some {n % 7 * 37}, with nothing else in it: {n:x}." for n in range(300)]
    show(f"vectors, {dtype}", *load_encoder(dtype=dtype).encode(texts, 1))
for seed in range(16):
    sample = quantise(rows(100, 64, seed))
    show(f"clusters {seed}", *train_clusters(sample[:50], sample[50:], 8, 2))
source, target = (vector_shard(0, np.ones(900, bool), to_stored(rows(900, 48, seed))) for seed in (1, 2))
lists = nearest_neighbours(source.vectors, target.vectors, 4)
show("exact neighbours", *lists[0], *lists[1])
lists = search_clusters(source, target, 4, None, 10)
show("neighbours by clusters", *lists[0], *lists[1])
means = [neighbour_means(part.cosines) for part in lists]
show("margins", list_scores(*lists[0], means[0], means[1][lists[0].ids], "ratio").values)
"""
#: Numpy, its BLAS, that of torch, and torch itself; processors with AVX2 can do both.
OLDER = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
}
NEWER = {"OPENBLAS_CORETYPE": "Haswell"}
#: The kernels compiled for another processor as well, which takes a while.
OTHER_KERNELS = {"NUMBA_CPU_NAME": "ivybridge", "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt,+avx,+f16c"}


def begin(settings: dict[str, str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    return subprocess.Popen([sys.executable, "-c", RESULTS], env=environment, stdout=subprocess.PIPE, text=True)


def results(*settings: dict[str, str]) -> list[list[str]]:
    """The lines of processes that run side by side."""
    running = [begin(each) for each in settings]
    ended = [process.communicate()[0].splitlines() for process in running]
    assert all(process.returncode == 0 for process in running)
    return ended


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the settings are those of x86")
def test_results_are_the_same_on_an_older_and_a_newer_processor():
    newer, older = results(NEWER, OLDER)
    assert len(newer) == 22
    assert newer == older


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the settings are those of x86")
def test_results_are_the_same_with_kernels_for_another_processor(tmp_path):
    here, there = results({}, {**OLDER, **OTHER_KERNELS, "NUMBA_CACHE_DIR": str(tmp_path)})
    assert here == there
