"""Ctrl-C: the program stops at once, at whatever it is.

Python runs the handler of a signal in the main thread, between two of its instructions. A kernel
may keep that thread for minutes, and a library may swallow the exception that the handler raises.
So a thread of its own waits for the signal, and ends the process as a kill would, which run
folders, trainings and files that are renamed into place all stand. SIGTERM keeps what the system
does by itself: it ends the process even where native code lets no thread of Python run.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import threading
from collections.abc import Iterator

from mining.errors import RunError
from mining.io.atomic import remove_begun
from pipelines.cli.begin import INTERRUPTED, INTERRUPTED_CODE

SHORTAGE = "not enough memory or threads: raise the limits (ulimit -a), stop other programs, or use fewer --threads"
#: What libraries say when they get no memory or no thread, in exceptions that are not made for it.
_SHORT = (
    "can't start new thread",
    "cannot allocate memory",
    "can't allocate memory",
    "failed to map segment",
    "out of memory",
    "bad_alloc",
)
#: Bytes with which not even two sentences are encoded by one thread.
_ADDRESS_SPACE = 9 << 28
#: Ends the watching; no signal has this number.
_END = 0
_SHOW_CURSOR = "\x1b[?25h"


@contextlib.contextmanager
def stopped_by_ctrl_c() -> Iterator[None]:
    """Within the block SIGINT ends the process in one line, with exit code 130. Raises MemoryError
    without a thread.

    Outside of the main thread, where Python lets nobody set handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    watcher = threading.Thread(target=_watch, args=(reading,), daemon=True, name="signals")
    try:
        watcher.start()
    except RuntimeError as error:
        raise MemoryError(str(error)) from None
    # C code of Python writes the number of a signal into the pipe, whatever runs; the handler has
    # nothing to do. It comes last and goes first, so that no signal is lost between the two.
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        signal.set_wakeup_fd(wakeup)
        os.write(writing, bytes([_END]))
        watcher.join()
        os.close(writing)
        os.close(reading)


def check_address_space() -> None:
    """Raise RunError where there is less address space than the libraries that are loaded take,
    whatever the input.

    Below that they end the process, or never return, each in its own way.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE:
        raise RunError(
            f"this process may use {limit >> 20} MiB of address space (ulimit -v), and this command needs more than "
            f"{_ADDRESS_SPACE >> 20} MiB of it for its libraries alone: raise the limit"
        )


def is_shortage(error: Exception) -> bool:
    """Whether an exception says that there is no memory or no thread to be had."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(words in str(error).lower() for words in _SHORT)
    )


def shortage(error: BaseException) -> str:
    """The line for such an exception, which may have no words of its own."""
    return f"error: {SHORTAGE} ({error})" if str(error) else f"error: {SHORTAGE}"


def _watch(reading: int) -> None:
    """Wait for the signal until the end is told."""
    while (number := os.read(reading, 1)[0]) != _END:
        if number == signal.SIGINT:
            _stop()


def _stop() -> None:
    line, code = INTERRUPTED, INTERRUPTED_CODE
    try:
        if not _can_start_a_thread():
            # OpenBLAS sends SIGINT to its own process when it can start no thread: nobody pressed
            # Ctrl-C.
            line, code = f"error: {SHORTAGE}", 1
        remove_begun()
        # A bar of progress has hidden the cursor. A stream that takes nothing now must not keep the
        # process.
        text = f"{_SHOW_CURSOR if os.isatty(2) else ''}\n{line}\n"
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode())
    finally:
        os._exit(code)


def _can_start_a_thread() -> bool:
    try:
        thread = threading.Thread(target=lambda: None, daemon=True)
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True
