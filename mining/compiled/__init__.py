"""Kernels compiled by numba: how they are declared, and how several threads share their work.

A kernel holds no Python object, so it runs without the interpreter's lock. It is compiled for each
combination of argument types at its first call, for the processor at hand, by one thread at a time
(numba's own lock; later calls take none), and kept on disk (`cache`). Floating-point operations
keep the order in which they are written: results are the same to the last bit on every machine and
for any number of threads.

A kernel declares its arguments by annotations, once::

    @compiled
    def add_rows(rows: Float32Matrix, labels: Int64Vector, sums: Float64Matrix) -> None: ...

They are checked when a combination of types is met for the first time, before it is compiled: a
wrong type raises TypeError, in Python and from other kernels, and calls cost no more. What is
annotated as `Any` is not checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_args, get_type_hints

import numba
import numpy as np
import numpy.ma  # numba imports it at the first call of a kernel, in whatever thread, and it parses
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from mining.compiled.cache import KernelCache
from mining.devices import resolve_threads

# So does it this, if it is there: its OpenBLAS asks for memory and never returns where there is too
# little by then.
with contextlib.suppress(ImportError):
    import scipy.linalg.cython_blas  # type: ignore[import-untyped]  # noqa: F401

F = TypeVar("F", bound=Callable[..., Any])

# Arrays by type and number of dimensions, as kernels declare them.
BoolVector: TypeAlias = Annotated[NDArray[np.bool_], 1]
UInt8Vector: TypeAlias = Annotated[NDArray[np.uint8], 1]
UInt32Vector: TypeAlias = Annotated[NDArray[np.uint32], 1]
UInt64Vector: TypeAlias = Annotated[NDArray[np.uint64], 1]
UInt64Matrix: TypeAlias = Annotated[NDArray[np.uint64], 2]
Int8Vector: TypeAlias = Annotated[NDArray[np.int8], 1]
Int8Matrix: TypeAlias = Annotated[NDArray[np.int8], 2]
Int32Vector: TypeAlias = Annotated[NDArray[np.int32], 1]
Int32Matrix: TypeAlias = Annotated[NDArray[np.int32], 2]
Int64Vector: TypeAlias = Annotated[NDArray[np.int64], 1]
Int64Matrix: TypeAlias = Annotated[NDArray[np.int64], 2]
Float32Vector: TypeAlias = Annotated[NDArray[np.float32], 1]
Float32Matrix: TypeAlias = Annotated[NDArray[np.float32], 2]
Float64Vector: TypeAlias = Annotated[NDArray[np.float64], 1]
Float64Matrix: TypeAlias = Annotated[NDArray[np.float64], 2]
Float64Cube: TypeAlias = Annotated[NDArray[np.float64], 3]
Int: TypeAlias = int | np.int64

# Numbers: of any length, or of the one that they name.
Integer: TypeAlias = int | np.integer[Any]
Real: TypeAlias = float | np.floating[Any]

_SCALARS: dict[Any, type] = {
    bool: types.Boolean,
    int: types.Integer,
    float: types.Float,
    Integer: types.Integer,
    Real: types.Float,
    np.int32: types.Integer,
    np.float32: types.Float,
}


def compiled(function: F) -> F:
    """Decorate a kernel: arrays and numbers in, arrays changed in place or numbers out; no
    exceptions within."""
    kernel = numba.njit(nogil=True, error_model="numpy", fastmath=False)(function)
    if isinstance(kernel, Dispatcher):  # and not the function itself, as with NUMBA_DISABLE_JIT=1
        untyped: Any = kernel
        # The way that numba has of its own, enable_caching(), leads to a cache that does not see
        # what a kernel calls.
        untyped._cache = KernelCache(kernel)
        untyped.compile = _checked(function, untyped.compile)
    return cast(F, kernel)


def _checked(function: Callable[..., Any], compile_types: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The compilation of a kernel for a tuple of numba types, once these are what it declares."""

    def checked(signature: Any) -> Any:
        hints = get_type_hints(function, include_extras=True)
        given = signature.args if hasattr(signature, "args") else signature
        for name, found in zip(function.__code__.co_varnames, given, strict=False):
            if name in hints and not _fits(hints[name], types.unliteral(found)):
                raise TypeError(f"{function.__qualname__}: {name} is {found}, and declared as {_shown(hints[name])}")
        return compile_types(signature)

    return checked


def _array(declared: Any) -> tuple[np.dtype[Any], int] | None:
    """The type and number of dimensions of an array's annotation; None for that of something
    else."""
    parts = getattr(declared, "__metadata__", ())
    return (np.dtype(get_args(get_args(declared.__origin__)[1])[0]), parts[0]) if parts else None


def _fits(declared: Any, found: Any) -> bool:
    array = _array(declared)
    if array is not None:
        return isinstance(found, types.Array) and (numba.from_dtype(array[0]), array[1]) == (found.dtype, found.ndim)
    return declared not in _SCALARS or isinstance(found, _SCALARS[declared])


def _shown(declared: Any) -> str:
    array = _array(declared)
    return getattr(declared, "__name__", str(declared)) if array is None else f"array({array[0]}, {array[1]}d)"


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
