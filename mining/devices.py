"""Devices and threads of torch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mining.errors import UsageError


def resolve_threads(threads: int) -> int:
    """The number of threads meant by `threads`: 0 stands for every core this process may use."""
    if threads > 0:
        return threads
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use `threads` threads (0: all cores) inside the block, and as many as before after it."""
    before = torch.get_num_threads()
    wanted = resolve_threads(threads)
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_device(name: str) -> torch.device:
    """The device called `name`; raises UsageError when it is unknown or not there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"device '{name}': unknown; use cpu or cuda") from None
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"device '{name}': not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device '{name}': this machine or this build of torch has no CUDA; use cpu")
    return device


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = (1 << 31) - 1


def keep_freed_memory() -> None:
    """Tell glibc to keep blocks that were freed instead of giving them back to the system each time.

    The megabytes that a training step frees and asks for again are otherwise cleared page by page by the kernel: a step
    of 1,024 pairs took twice as long. It holds for the process; without glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, _LARGEST)
