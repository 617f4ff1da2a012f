"""How many threads to use."""

from __future__ import annotations

import os


def resolve_threads(threads: int) -> int:
    """The number of threads meant by `threads`: 0 stands for every core this process may use."""
    if threads > 0:
        return threads
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
