"""One small job on every runner that can be started here: the same bytes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipelines.mine import run_mine
from tests.pipelines.conftest import config, contents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected(task, tiny_model, tmp_path_factory):
    return contents(run_mine(config(task, tiny_model, tmp_path_factory.mktemp("fnapi") / "run"), quiet=True).folder)


@pytest.fixture
def cluster(monkeypatch):
    """A Dask cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    # Workers import the pipeline and the tests' helpers by name.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def job_service(tmp_path):
    """Beam's Python job service; gives its address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main", "--port", str(port)]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with open(tmp_path / "job-service.log", "wb") as log:
        service = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            _wait_for(lambda: _accepts(port) or service.poll() is not None)
            yield f"localhost:{port}"
        finally:
            service.terminate()
            service.wait()


def _accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


def _wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.02)


def test_threads(expected, task, tiny_model, tmp_path):
    result = run_mine(config(task, tiny_model, tmp_path / "run", runner__workers=3), quiet=True)
    assert contents(result.folder) == expected


def test_dask(expected, cluster, task, tiny_model, tmp_path):
    runner = {"runner__name": "DaskRunner", "runner__dask_address": cluster.scheduler_address}
    result = run_mine(config(task, tiny_model, tmp_path / "run", **runner), quiet=True)
    assert contents(result.folder) == expected


def test_killed_dask_worker_does_not_show(expected, cluster, task, tiny_model, tmp_path):
    runner = {"runner__name": "DaskRunner", "runner__dask_address": cluster.scheduler_address}
    victim = next(iter(cluster.workers.values())).pid
    folder = tmp_path / "run"

    def kill_in_the_midst():
        _wait_for(lambda: list(folder.glob("work/encode/*.json")))
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_the_midst)
    killer.start()
    result = run_mine(config(task, tiny_model, folder, shard__rows=40, **runner), quiet=True)
    killer.join()
    assert contents(result.folder) == expected


def test_portable_job_service_in_loopback_mode(expected, job_service, task, tiny_model, tmp_path):
    options = {"job_endpoint": job_service, "environment_type": "LOOPBACK"}
    runner = {"runner__name": "PortableRunner", "runner__options": options}
    result = run_mine(config(task, tiny_model, tmp_path / "run", **runner), quiet=True)
    assert contents(result.folder) == expected


def test_accelerator_hints_reach_encode_and_search(task, tiny_model, tmp_path):
    import apache_beam as beam

    from mining.config.mine import RunnerSettings
    from pipelines.engine import DoStep, stage_work
    from pipelines.transforms.encode import encode
    from pipelines.transforms.pairs import score
    from pipelines.transforms.search import search, search_shards

    settings = RunnerSettings(accelerator="type:nvidia-tesla-t4;count:1")
    for stage in (encode, search, search_shards, score):
        hints = stage_work(stage.accelerated, settings).get_resource_hints()
        assert bool(hints) is (stage is not score)
    assert isinstance(stage_work(True, RunnerSettings()), beam.ParDo)
    assert DoStep in {type(stage_work(False, settings).fn)}
