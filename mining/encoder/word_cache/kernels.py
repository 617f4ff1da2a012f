"""The table of words, compiled: an open-addressing hash table over the bytes of words.

A slot is three uint64: two that hold the word, and ``position << 8 | bytes of the word``, zero when
the slot is free. A word of up to 16 bytes stands in the slot itself, filled up with zeros. Of a
longer one the first number is its hash and the second the position of its bytes in `keys`. So what
is found is always compared with the whole word. The position is where the word's pieces stand in a
pool of int32: first ``number of pieces << 2 | flags``, then the pieces.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mining.compiled import Int, Int32Vector, Int64Matrix, Int64Vector, UInt8Vector, UInt64Matrix, compiled

LONGEST = 64
"""Bytes of the longest word that is kept."""
INSIDE = 16
"""Bytes of the longest word that stands in its slot."""
CONTENT, UNKNOWN = 1, 2
"""Flags of a word: it has a piece other than the bare boundary; it has unknown pieces."""
_BATCH = 16
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_ZERO, _ONE, _SHIFT, _BITS, _LENGTH = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(8), np.uint64(255)
_BEYOND_SPACE = np.uint64(0x2121212121212121)
_SPACE, _LOW_BYTE = np.uint64(0x20), np.uint64(0xFF)
_HIGH_BITS = np.uint64(0x8080808080808080)
_FROM_A, _FROM_Z = np.uint64(0x3F3F3F3F3F3F3F3F), np.uint64(0x2525252525252525)
_SMALL = np.uint64(0x7F7F7F7F7F7F7F7F)


def _eight_bytes(_context: Any, data: Any, at: Any) -> Any:
    """``data[at : at + 8]`` of an array of uint8 as one uint64, the first byte the lowest;
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
ask_for: Any = intrinsic(_ask_for)


@compiled
def mixed(state: np.uint64, number: np.uint64) -> np.uint64:
    """One round of a multiplicative hash."""
    state = (state ^ number) * _FACTOR
    return state ^ (state >> _SHIFT)


@compiled
def small_letters(chunk: np.uint64) -> np.uint64:
    """Eight bytes of ASCII with A to Z in lower case."""
    from_a = (chunk & _SMALL) + _FROM_A
    beyond_z = (chunk & _SMALL) + _FROM_Z
    return chunk | (((from_a & ~beyond_z) & _HIGH_BITS) >> np.uint64(2))


@compiled
def hash_of(low: np.uint64, high: np.uint64, length: Int) -> np.uint64:
    """Hash of a word that stands in its slot."""
    return mixed(mixed(_SEED ^ np.uint64(length), low), high)


@compiled
def is_split(byte: np.uint64, splits: np.uint64) -> bool:
    """Whether a byte separates words: `splits` has a bit for each byte up to the space."""
    return bool(byte <= _SPACE and (splits >> np.uint64(byte)) & _ONE != _ZERO)


@compiled
def word_part(chunk: np.uint64, splits: np.uint64) -> Int:
    """How many of eight bytes come before the first one that separates words."""
    # The top bit of each byte below the space or equal to it; a byte after such a one may be marked
    # wrongly.
    marks = (chunk - _BEYOND_SPACE) & ~chunk & _HIGH_BITS
    while marks != _ZERO:
        size = trailing_zeros(marks) >> 3
        if is_split((chunk >> np.uint64(8 * size)) & _LOW_BYTE, splits):
            return size
        marks &= marks - _ONE
    return np.int64(8)


@compiled
def read_word(
    data: UInt8Vector, start: Int, end: Int, splits: np.uint64, folds: bool
) -> tuple[Int, np.uint64, np.uint64, np.uint64]:
    """The word that starts at `start`: where it ends, the two numbers of its slot, and its hash.

    For a word longer than `INSIDE` both numbers are its hash. Eight bytes are read at a time.
    """
    low = high = state = _ZERO
    at: Int = start
    size: Int = np.int64(8)
    while size == 8:
        if at + 8 <= len(data):
            chunk = eight_bytes(data, at)
            size = min(word_part(chunk, splits), end - at)
            if size < 8:
                chunk &= (_ONE << np.uint64(8 * size)) - _ONE
        else:
            chunk, size = _ZERO, np.int64(0)
            while at + size < end and not is_split(np.uint64(data[at + size]), splits):
                chunk |= np.uint64(data[at + size]) << np.uint64(8 * size)
                size += 1
        if at == start:
            low = chunk
        elif at == start + 8:
            high = chunk
        else:
            state = mixed(state, chunk)
        at += size
    length = at - start
    if length > INSIDE:
        state = mixed(mixed(mixed(state, low), high), np.uint64(length))
        return at, state, state, state
    if folds and ((low | high) & _HIGH_BITS) == _ZERO:
        low, high = small_letters(low), small_letters(high)
    return at, low, high, hash_of(low, high, length)


@compiled
def find(
    slots: UInt64Matrix, keys: UInt8Vector, data: UInt8Vector, start: Int, length: Int, low: np.uint64,
    high: np.uint64, state: np.uint64,
) -> Int:  # fmt: skip
    """The slot of the word at `start`, or the free slot where it would go."""
    mask = len(slots) - 1
    slot = np.int64(state >> _SHIFT) & mask
    while True:
        last = slots[slot, 2]
        if last == _ZERO:
            return slot
        if np.int64(last & _LENGTH) == length and slots[slot, 0] == low:
            if length <= INSIDE:
                if slots[slot, 1] == high:
                    return slot
            else:
                at, step = np.int64(slots[slot, 1]), 0
                while step < length and keys[at + step] == data[start + step]:
                    step += 1
                if step == length:
                    return slot
        slot = (slot + 1) & mask


@compiled
def read_words(
    data: UInt8Vector, at: Int, end: Int, splits: np.uint64, folds: bool, spread: np.uint64, slots: UInt64Matrix,
    batch: UInt64Matrix,
) -> tuple[Int, int]:  # fmt: skip
    """Read words until `batch` is full or the text ends; where that is, and how many words were
    read.

    `batch` gets (first number, second number, hash, start, end) of each. Their slots are asked for,
    so that they come from memory side by side.
    """
    words, mask = 0, len(slots) - 1
    while at < end and words < len(batch):
        if is_split(np.uint64(data[at]), splits):
            at += 1
            continue
        start = at
        at, low, high, state = read_word(data, start, end, splits, folds)
        state &= spread
        if at - start > INSIDE:
            low = state
        ask_for(slots, np.int64(state >> _SHIFT) & mask)
        batch[words, 0], batch[words, 1], batch[words, 2] = low, high, state
        batch[words, 3], batch[words, 4] = np.uint64(start), np.uint64(at)
        words += 1
    return at, words


@compiled
def scan(
    data: UInt8Vector, offsets: Int64Vector, splits: np.uint64, folds: bool, spread: np.uint64, slots: UInt64Matrix,
    keys: UInt8Vector, found: Int64Vector, ends: Int64Vector, missed: Int64Matrix,
) -> tuple[int, int]:  # fmt: skip
    """Look up the words of texts; the number of words, and of those not in the table.

    Writes the position of each word to `found`, the number of words so far to `ends` after each
    text, and for a word that is not in the table (word, start, end) to `missed`. `spread` is a mask
    of the hash: all ones but in tests.
    """
    words = misses = 0
    batch = np.empty((_BATCH, 5), np.uint64)
    for text in range(len(ends)):
        at, end = offsets[text], offsets[text + 1]
        while at < end:
            at, count = read_words(data, at, end, splits, folds, spread, slots, batch)
            for word in range(count):
                start, stop = np.int64(batch[word, 3]), np.int64(batch[word, 4])
                last_part = _ZERO
                if stop - start <= LONGEST:
                    slot = find(slots, keys, data, start, stop - start, batch[word, 0], batch[word, 1], batch[word, 2])
                    last_part = slots[slot, 2]
                if last_part == _ZERO:
                    missed[misses, 0], missed[misses, 1], missed[misses, 2] = words, start, stop
                    misses += 1
                found[words] = np.int64(last_part >> _BITS)
                words += 1
        ends[text] = words
    return words, misses


@compiled
def gather(
    data: UInt8Vector, missed: Int64Matrix, splits: np.uint64, folds: bool, spread: np.uint64, slots: UInt64Matrix,
    keys: UInt8Vector, starts: Int64Vector, found: Int64Vector,
) -> int:  # fmt: skip
    """Number the distinct words among the missed ones; how many there are.

    `slots` and `keys` are those of a table of their own: its positions are the numbers, and `keys`
    has the bytes of all words, word i from ``starts[i]`` on. Words longer than `LONGEST` all count
    as distinct. `found` gets ``-1 - number`` for each missed word.
    """
    known = 0
    for miss in range(len(missed)):
        start, end = missed[miss, 1], missed[miss, 2]
        length = end - start
        if length <= LONGEST:
            _, low, high, state = read_word(data, start, end, splits, folds)
            state &= spread
            if length > INSIDE:
                low &= spread
            slot = find(slots, keys, data, start, length, low, high, state)
            if slots[slot, 2] != _ZERO:
                found[missed[miss, 0]] = -1 - np.int64(slots[slot, 2] >> _BITS)
                continue
            slots[slot, 0] = low
            slots[slot, 1] = high if length <= INSIDE else np.uint64(starts[known])
            slots[slot, 2] = (np.uint64(known) << _BITS) | np.uint64(length)
        first = starts[known]
        for step in range(length):
            keys[first + step] = data[start + step]
        found[missed[miss, 0]] = -1 - known
        known += 1
        starts[known] = first + length
    return known


@compiled
def absorb(
    data: UInt8Vector, starts: Int64Vector, splits: np.uint64, folds: bool, spread: np.uint64, own: Int32Vector,
    positions: Int64Vector, slots: UInt64Matrix, keys: UInt8Vector, pool: Int32Vector, used: Int64Vector,
) -> int:  # fmt: skip
    """Insert new words, their pieces from the pool `own`, while there is room; how many words were
    inserted.

    `used`: words, bytes of `keys` and length of `pool` in use, brought up to date.
    """
    inserted = 0
    for word in range(len(positions)):
        start, end = starts[word], starts[word + 1]
        length = end - start
        if length > LONGEST:
            continue
        _, low, high, state = read_word(data, start, end, splits, folds)
        state &= spread
        if length > INSIDE:
            low &= spread
        slot = find(slots, keys, data, start, length, low, high, state)
        if slots[slot, 2] != _ZERO:
            continue
        size = 1 + (own[positions[word]] >> 2)
        outside = length if length > INSIDE else 0
        if used[1] + outside > len(keys) or used[2] + size > len(pool) or 3 * (used[0] + 1) > 2 * len(slots):
            break
        for step in range(outside):
            keys[used[1] + step] = data[start + step]
        for step in range(size):
            pool[used[2] + step] = own[positions[word] + step]
        slots[slot, 0] = low
        slots[slot, 1] = high if length <= INSIDE else np.uint64(used[1])
        slots[slot, 2] = (np.uint64(used[2]) << _BITS) | np.uint64(length)
        used[0] += 1
        used[1] += outside
        used[2] += size
        inserted += 1
    return inserted


@compiled
def rehash(old: UInt64Matrix, slots: UInt64Matrix, spread: np.uint64) -> None:
    """Put the words of `old` into `slots`, which is empty."""
    mask = len(slots) - 1
    for at in range(len(old)):
        length = np.int64(old[at, 2] & _LENGTH)
        if length == 0:
            continue
        state = old[at, 0] if length > INSIDE else hash_of(old[at, 0], old[at, 1], length) & spread
        slot = np.int64(state >> _SHIFT) & mask
        while slots[slot, 2] != _ZERO:
            slot = (slot + 1) & mask
        for part in range(3):
            slots[slot, part] = old[at, part]


@compiled
def tally(found: Int64Vector, pool: Int32Vector, own: Int32Vector, positions: Int64Vector) -> int:
    """Known pieces of all words; see `flatten`."""
    total = 0
    for word in range(len(found)):
        position = found[word]
        total += (pool[position] if position >= 0 else own[positions[-1 - position]]) >> 2
    return total


@compiled
def flatten(
    found: Int64Vector, ends: Int64Vector, pool: Int32Vector, own: Int32Vector, positions: Int64Vector, unknown: Int,
    ids: Int32Vector, offsets: Int64Vector,
) -> int:  # fmt: skip
    """Pieces of each text from its words, by the rule for unknown pieces; their number.

    A word is its position in `pool`, or ``-1 - number`` of a new one, which starts at
    ``own[positions[number]]``. Unknown pieces are left out; a text in which nothing is known but
    bare boundaries, and something unknown, is one unknown piece.
    """
    word, total = 0, 0
    offsets[0] = 0
    for text in range(len(ends)):
        flags, before = 0, total
        while word < ends[text]:
            position = found[word]
            source = pool if position >= 0 else own
            first = position if position >= 0 else positions[-1 - position]
            header = source[first]
            flags |= header & (CONTENT | UNKNOWN)
            for step in range(1, 1 + (header >> 2)):
                ids[total] = source[first + step]
                total += 1
            word += 1
        if flags == UNKNOWN:
            ids[before] = unknown
            total = before + 1
        offsets[text + 1] = total
    return total
