"""What the machine code of a kernel depends on, as one hash.

A kernel's machine code has in it the code of every kernel that it calls, in whatever module they
stand, and the values that the names in them had. numba's own cache looks at the file of the
outermost kernel alone, and goes on with old code after an edit of another. So the hash goes over
the byte code of a kernel and over all that its names stand for, down to numbers. No file is read,
and an edit makes those kernels new that it is compiled into.
"""

from __future__ import annotations

import hashlib
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import config

#: Packages whose contents their version stands for.
_VERSIONED = frozenset({"builtins", "llvmlite", "math", "numba", "numpy", "operator", "sys"})
_VERSIONS = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, numba.types.Type)
_settings: Any = config


def kernel_key(kernel: Any, signature: Any, processor: tuple[Any, ...]) -> str:
    """Hash of all that the machine code of a kernel depends on, 64 hexadecimal digits.

    `kernel` is a function, compiled by numba or not; `signature` has the numba types of its
    arguments, `processor` is numba's name for the processor and what it can do. Raises TypeError
    when the kernel names something whose contents cannot be told.
    """
    about = (_VERSIONS, _settings.BOUNDSCHECK, repr(signature), processor, _described(kernel, {}))
    return hashlib.sha256(repr(about).encode()).hexdigest()


def _described(value: Any, seen: dict[int, int]) -> object:
    """The contents of a value as plain tuples; a function met before (`seen`, by identity) is its
    number."""
    # Kernels and intrinsics are objects of numba around a function.
    function = getattr(value, "__wrapped__", value)
    if isinstance(function, FunctionType):
        if id(function) in seen:
            return "again", seen[id(function)]
        seen[id(function)] = len(seen)
        return _function(function, getattr(value, "targetoptions", None), seen)
    if isinstance(value, CodeType):
        return _code(value, seen)
    if isinstance(value, (tuple, list, frozenset)):
        parts = [_described(part, seen) for part in value]
        # A set has no order that is the same in every process.
        return type(value).__name__, sorted(parts, key=repr) if isinstance(value, frozenset) else parts
    return _data(value)


def _data(value: Any) -> object:
    """Numbers, texts and arrays by what is in them, parts of other packages by their name."""
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, np.ndarray):
        return "ndarray", value.dtype.str, value.shape, value.tobytes()
    name = ""
    if isinstance(value, ModuleType):
        name = value.__name__
    elif isinstance(value, (type, BuiltinFunctionType, np.ufunc)):
        name = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', repr(value))}"
    if name.partition(".")[0] in _VERSIONED:
        return "named", name
    raise TypeError(f"a kernel cannot name {value!r}: nothing tells when its contents change")


def _function(function: FunctionType, options: object, seen: dict[int, int]) -> object:
    """Code of a function, and what stands behind its names, its closure and its defaults."""
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    return (
        function.__module__,
        function.__qualname__,
        repr(options),
        _code(function.__code__, seen),
        [(name, _described(function.__globals__[name], seen)) for name in names],
        [_described(cell.cell_contents, seen) for cell in function.__closure__ or ()],
        _described(function.__defaults__, seen),
    )


def _code(code: CodeType, seen: dict[int, int]) -> object:
    """What a code does; not where it stands, so that an edit above it changes nothing."""
    consts = [_described(value, seen) for value in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    # Python 3.10 has no table of exceptions beside the instructions.
    return code.co_code, code.co_flags, code.co_argcount, names, consts, getattr(code, "co_exceptiontable", b"")


def _names(code: CodeType) -> set[str]:
    """Names of a code and of those within it: of globals, and of attributes, which are told apart
    only by running."""
    inner = [_names(value) for value in code.co_consts if isinstance(value, CodeType)]
    return set(code.co_names).union(*inner)
