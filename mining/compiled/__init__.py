"""Kernels compiled by numba: how they are declared, and how several threads share their work.

A kernel holds no Python object, so it runs without the interpreter's lock. It is compiled for each
combination of argument types at its first call, for the processor at hand, by one thread at a time
(numba's own lock; later calls take none), and kept on disk (`kernel_cache`). Floating-point
operations keep the order in which they are written: results are the same to the last bit on every
machine and for any number of threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba
import numpy.ma  # noqa: F401  numba imports it at the first call of a kernel, in whatever thread, and it parses
from numba.core.dispatcher import Dispatcher

from mining.compiled.cache import KernelCache
from mining.devices import resolve_threads

# So does it this, if it is there: its OpenBLAS asks for memory and never returns where there is too
# little by then.
with contextlib.suppress(ImportError):
    import scipy.linalg.cython_blas  # type: ignore[import-untyped]  # noqa: F401

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Decorate a kernel: arrays and numbers in, arrays changed in place or numbers out; no
    exceptions within."""
    kernel = numba.njit(nogil=True, error_model="numpy", fastmath=False)(function)
    if isinstance(kernel, Dispatcher):  # and not the function itself, as with NUMBA_DISABLE_JIT=1
        # The way that numba has of its own, enable_caching(), leads to a cache that does not see
        # what a kernel calls.
        cast(Any, kernel)._cache = KernelCache(kernel)
    return cast(F, kernel)


def in_ranges(work: Callable[[int, int], None], count: int, threads: int = 0, least: int = 1) -> None:
    """Call ``work(start, stop)`` for ranges that make up ``range(count)``, each on its own thread.

    `threads` 0 stands for all cores; a range has at least `least` members, so that little work
    stays on one thread.
    """
    parts = max(1, min(resolve_threads(threads), count // max(1, least)))
    if parts == 1:
        work(0, count)
        return
    limits = [count * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts - 1) as pool:
        waiting = [pool.submit(work, *limits[part : part + 2]) for part in range(1, parts)]
        work(*limits[:2])
        for part in waiting:
            part.result()
