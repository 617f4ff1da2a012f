"""Instructions that compiled code lacks: wide loads, trailing zeros, prefetching, the numbers of
small tables."""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _eight_bytes(_context: Any, data: Any, place: Any) -> Any:
    """``data[place : place + 8]`` of an array of uint8 as one uint64, the first byte the lowest;
    all must be there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(array.data, [arguments[1]])
        pointer = builder.bitcast(pointer, ir.PointerType(ir.IntType(64)))
        value = builder.load(pointer)
        value.align = 1
        if sys.byteorder == "big":
            value = builder.bswap(value)
        return value

    return types.uint64(data, types.int64), generate


def _trailing_zeros(_context: Any, number: Any) -> Any:
    """Zero bits below the lowest one of a uint64 that is not 0."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _widened(_context: Any, number: Any, scale: Any) -> Any:
    """A stored number as float32: of a float16 (its bits, uint16), of an int8 times its row's
    scale, or itself."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, factor = arguments
        if number == types.uint16:
            return builder.fpext(builder.bitcast(value, ir.HalfType()), ir.FloatType())
        if number == types.int8:
            return builder.fmul(builder.sitofp(value, ir.FloatType()), factor)
        return value

    return types.float32(number, scale), generate


def _ask_for(_context: Any, array: Any, row: Any) -> Any:
    """Ask the processor to fetch the start of a row of a two-dimensional C-contiguous array into
    its caches."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        step = builder.extract_value(made.strides, 0)
        start = builder.bitcast(made.data, ir.PointerType(ir.IntType(8)))
        pointer = builder.gep(start, [builder.mul(step, arguments[1])])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


eight_bytes: Any = intrinsic(_eight_bytes)
trailing_zeros: Any = intrinsic(_trailing_zeros)
widened: Any = intrinsic(_widened)
ask_for: Any = intrinsic(_ask_for)
