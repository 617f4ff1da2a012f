"""Ctrl-C in the moments before it is watched for: the standard library alone takes some of them to
import."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

INTERRUPTED = "interrupted: run the same command again, what is finished is kept"
#: The exit code that a shell gives for SIGINT.
INTERRUPTED_CODE = 130


def stop_at_ctrl_c() -> None:
    """Let SIGINT end the process in one line from now on, between two instructions of Python.

    Outside of the main thread, where Python lets nobody set handlers, nothing changes.
    """
    try:
        signal.signal(signal.SIGINT, _stop)
    except ValueError:
        return


def _stop(number: int, frame: FrameType | None) -> None:
    try:
        # A stream that takes nothing now must not keep the process.
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"\n{INTERRUPTED}\n".encode())
    finally:
        os._exit(INTERRUPTED_CODE)
