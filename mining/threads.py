"""How many threads to use."""

from __future__ import annotations

import os
import threading

PARSING = threading.Lock()
"""Held while numpy reads the header of a file, which it lets Python parse.

In Python 3.11 a parse fails with ``SystemError: AST constructor recursion depth mismatch`` when
another thread parses something meanwhile; it can, whenever the garbage collector runs within the
parse.
"""


def resolve_threads(threads: int) -> int:
    """The number of threads meant by `threads`: 0 stands for every core this process may use."""
    if threads > 0:
        return threads
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
