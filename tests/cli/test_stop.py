"""The program stops at once when it is told to, at whatever it is."""

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mining.errors import RunError
from pipelines.cli.stop import check_address_space, is_shortage, shortage, stopped_by_ctrl_c

#: A generous wait: a process that does not stop is ended by the test.
PATIENCE = 120
#: A call of many minutes that keeps the main thread out of Python.
BUSY = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2_000_000_000)"


def ended(script: str, *numbers: signal.Signals) -> tuple[int, str]:
    """Run a script, send it signals as soon as it writes a line, and give its exit code and what it
    says."""
    command = [sys.executable, "-c", f"import hashlib, sys\nfrom pipelines.cli.stop import *\n{script}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for number in numbers:
                process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, err


def test_stops_while_native_code_keeps_the_main_thread():
    script = f"with stopped_by_ctrl_c():\n    print('ready', flush=True)\n    {BUSY}"
    said = "\ninterrupted: run the same command again, what is finished is kept\n"
    assert ended(script, signal.SIGINT) == (130, said)


def test_stops_before_it_is_watched():
    script = """
from pipelines.cli.begin import stop_at_ctrl_c
stop_at_ctrl_c()
print('ready', flush=True)
while True:
    pass
"""
    said = "\ninterrupted: run the same command again, what is finished is kept\n"
    assert ended(script, signal.SIGINT) == (130, said)


def test_nothing_is_imported_before_ctrl_c_is_heard():
    script = (
        "import sys, pipelines.cli.__main__; print(*sorted(n for n in sys.modules if n[:6] in ('mining', 'pipeli')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pipelines", "pipelines.cli", "pipelines.cli.__main__", "pipelines.cli.begin"]


def test_a_termination_is_left_to_the_system():
    script = f"with stopped_by_ctrl_c():\n    print('ready', flush=True)\n    {BUSY}"
    assert ended(script, signal.SIGTERM) == (-signal.SIGTERM, "")


def test_stops_while_everything_is_swallowed():
    script = """
with stopped_by_ctrl_c():
    print('ready', flush=True)
    while True:
        try:
            sum(range(1000))
        except BaseException:
            pass
"""
    assert ended(script, signal.SIGINT)[0] == 130


def test_removes_files_that_are_begun(tmp_path):
    script = f"""
from mining.io.atomic import replacing
with stopped_by_ctrl_c(), replacing({str(tmp_path / "file")!r}) as temporary:
    open(temporary, 'w').write('half')
    print('ready', flush=True)
    {BUSY}
"""
    assert ended(script, signal.SIGINT)[0] == 130
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_nobody_reads_does_not_keep_the_process():
    script = f"""
import os
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
with stopped_by_ctrl_c():
    print('ready', flush=True)
    {BUSY}
"""
    command = [sys.executable, "-c", f"import hashlib\nfrom pipelines.cli.stop import *\n{script}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


def test_an_interruption_by_a_library_without_threads_is_an_error():
    script = f"""
import threading
def fail(thread):
    raise RuntimeError("can't start new thread")
with stopped_by_ctrl_c():
    threading.Thread.start = fail
    print('ready', flush=True)
    {BUSY}
"""
    code, err = ended(script, signal.SIGINT)
    assert code == 1
    assert err.startswith("\nerror: not enough memory or threads")


def test_everything_is_as_before_after_the_block():
    before = signal.getsignal(signal.SIGINT), threading.active_count()
    with stopped_by_ctrl_c():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), threading.active_count()) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_other_threads_leave_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def enter() -> None:
        with stopped_by_ctrl_c():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (RuntimeError("CUDA out of memory."), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (KeyError("cannot allocate memory"), False),
    ],
)
def test_shortages(error, short):
    assert is_shortage(error) is short


def test_the_line_of_a_shortage_without_words():
    assert shortage(MemoryError()).endswith("or use fewer --threads")
    assert shortage(MemoryError("16 MiB")).endswith("or use fewer --threads (16 MiB)")


@pytest.mark.parametrize(("limit", "stops"), [(1 << 30, True), (3 << 30, False), (resource.RLIM_INFINITY, False)])
def test_too_little_address_space_is_told_before_any_work(limit, stops, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    if not stops:
        return check_address_space()
    with pytest.raises(RunError, match="1024 MiB of address space"):
        check_address_space()
    return None


@pytest.mark.slow
@pytest.mark.parametrize("markers", ["work/read/*", "work/encode/*", "work/search/*"])
def test_interrupted_run_ends_in_one_line_and_can_go_on(markers, task, tiny_model, tmp_path):
    folder = tmp_path / "run"
    flags = ["--columns", "id,text", "--shard-rows", "40", "--threads", "1", "--quiet", "--output", folder]
    sides = ["--source", task.source, "--target", task.target, "--model", tiny_model]
    command = [sys.executable, "-m", "pipelines.cli", "mine", *map(str, [*flags, *sides])]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not list(Path(folder).glob(markers)) and process.poll() is None:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.strip()) == (
        130,
        "interrupted: run the same command again, what is finished is kept",
    )
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert not list(folder.glob("**/*.tmp-*"))
