"""Exact duplicates: the keys of texts and ids, and the first occurrence of each key within a hash
bucket.

Texts are equal up to NFKC, characters that are not seen, and white space (`normal_text`); their key
is MurmurHash3 (x64, 128 bits) of the UTF-8 of that. It is no cryptographic hash and need not be
one: among a thousand million different texts the chance that any two have one key is below 1e-20.
Ids whose keys are equal are compared themselves before they are called so. Most texts need no
normalisation, which a kernel sees from their bytes.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.compiled import BoolVector, Int64Vector, UInt8Vector, UInt64Matrix, compiled, in_ranges
from mining.corpus.cells import string_buffers
from mining.unseen import UNSEEN, without_unseen

KEY_BYTES = 16
#: Keys below which another thread does not pay.
_LEAST_KEYS = 2048

# Of MurmurHash3 (Austin Appleby, public domain): multipliers, additions and the final mix.
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_A1, _A2, _FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_27, _31, _33, _37, _64 = np.uint64(27), np.uint64(31), np.uint64(33), np.uint64(37), np.uint64(64)


def normal_text(text: str) -> str:
    """What equal texts have in common; case counts.

    The text is normalised to NFKC, the characters of `unseen` are left out, each run of white space
    becomes one space, and both ends are stripped.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        # Forms of letters with a vowel sign come apart in the first step, and what stood around a
        # sign may compose.
        seen = without_unseen("", text)
        text = text if len(seen) == len(text) else unicodedata.normalize("NFKC", seen)
    return " ".join(text.split())


def dedup_key(text: str) -> bytes:
    """16 bytes that are equal for texts with the same `normal_text`: its BLAKE2b digest, for texts
    that come one by one (`text_keys` has others)."""
    return hashlib.blake2b(normal_text(text).encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


@compiled
def _word(data: UInt8Vector, start: int, stop: int) -> np.uint64:
    """Up to 8 bytes as a number, little-endian."""
    word = np.uint64(0)
    for i in range(start, min(start + 8, stop)):
        word |= np.uint64(data[i]) << np.uint64(8 * (i - start))
    return word


@compiled
def _final(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _33)) * _F1
    value = (value ^ (value >> _33)) * _F2
    return value ^ (value >> _33)


@compiled
def _hash(data: UInt8Vector, offsets: Int64Vector, first: int, last: int, keys: UInt64Matrix) -> None:
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        length = np.uint64(stop - start)
        high, low = np.uint64(0), np.uint64(0)
        for at in range(start, stop, 16):
            word = _word(data, at, stop) * _C1
            high ^= ((word << _31) | (word >> _33)) * _C2
            if stop - at >= 16:
                high = (((high << _27) | (high >> _37)) + low) * _FIVE + _A1
            word = _word(data, at + 8, stop) * _C2
            low ^= ((word << _33) | (word >> _31)) * _C1
            if stop - at >= 16:
                low = (((low << _31) | (low >> _33)) + high) * _FIVE + _A2
        high, low = high ^ length, low ^ length
        high += low
        low += high
        high, low = _final(high), _final(low)
        keys[row, 0], keys[row, 1] = high + low, high + low + low


@compiled
def _is_plain(data: UInt8Vector, start: int, stop: int, steady: BoolVector) -> bool:
    """Whether `normal_text` leaves these bytes as they are."""
    i, after_space = start, True
    while i < stop:
        first = data[i]
        if first < 128:
            space = first == 32
            if (space and after_space) or 9 <= first <= 13 or 28 <= first <= 31:
                return False
            after_space = space
            i += 1
            continue
        if first < 0xE0:
            code = (np.int64(first & 0x1F) << 6) | (data[i + 1] & 0x3F)
            i += 2
        elif first < 0xF0:
            code = (np.int64(first & 0x0F) << 12) | (np.int64(data[i + 1] & 0x3F) << 6) | (data[i + 2] & 0x3F)
            i += 3
        else:
            return False
        if not steady[code]:
            return False
        after_space = False
    return not after_space or start == stop


@compiled
def _find_plain(
    data: UInt8Vector, offsets: Int64Vector, steady: BoolVector, first: int, last: int, plain: BoolVector
) -> None:
    for row in range(first, last):
        plain[row] = _is_plain(data, offsets[row], offsets[row + 1], steady)


@functools.cache
def steady_codes() -> NDArray[np.bool_]:
    """For each code point up to U+FFFF, whether NFKC leaves it as it is beside any other such, and
    it is neither unseen nor white space: (65536,) bool.

    These are normalised starters that compose with nothing before them; what does is a mark or a
    Hangul jamo (Unicode standard annex 15).
    """
    unseen = frozenset(UNSEEN)
    steady = np.zeros(1 << 16, dtype=bool)
    for code in [*range(0x1100), *range(0x1200, 0xD800), *range(0xE000, 1 << 16)]:
        char = chr(code)
        steady[code] = (
            unicodedata.is_normalized("NFKC", char)
            and unicodedata.combining(char) == 0
            and unicodedata.category(char) not in ("Mn", "Mc", "Me", "Cn")
            and not char.isspace()
            and char not in unseen
        )
    return steady


def text_keys(texts: pa.Array, threads: int = 0) -> NDArray[np.uint8]:
    """The keys of n texts (strings, none null), (n, 16) uint8, equal for texts with the same
    `normal_text`; `threads` 0 stands for all cores."""
    data, offsets = string_buffers(texts)
    plain = np.empty(len(texts), dtype=bool)
    steady = steady_codes()
    in_ranges(lambda a, b: _find_plain(data, offsets, steady, a, b, plain), len(texts), threads, _LEAST_KEYS)
    keys = _hashed(data, offsets, threads)
    other = np.flatnonzero(~plain)
    if len(other):
        normal = [normal_text(text) for text in texts.take(pa.array(other)).to_pylist()]
        keys[other] = id_keys(pa.array(normal, pa.large_string()), threads)
    return keys


def id_keys(ids: pa.Array, threads: int = 0) -> NDArray[np.uint8]:
    """The keys of n ids (strings, none null) as they are, (n, 16) uint8."""
    return _hashed(*string_buffers(ids), threads)


def _hashed(data: NDArray[np.uint8], offsets: NDArray[np.int64], threads: int) -> NDArray[np.uint8]:
    keys = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    in_ranges(lambda a, b: _hash(data, offsets, a, b, keys), len(keys), threads, _LEAST_KEYS)
    return keys.astype("<u8", copy=False).view(np.uint8).reshape(-1, KEY_BYTES)


def key_order(first: NDArray[np.uint64], *rest: NDArray[np.integer]) -> NDArray[np.int64]:
    """Indices (n,) that sort by `first` and, where that is equal, by each of `rest` in turn and by
    the index itself.

    Halves of digests are equal for equal texts and hardly ever else: one plain sort of numbers does
    nearly all, and only the tied rows need the rest.
    """
    order = np.argsort(first)
    ranked = first[order]
    equal = np.zeros(len(order) + 1, dtype=bool)
    equal[1:-1] = ranked[1:] == ranked[:-1]
    tied = np.flatnonzero(equal[1:] | equal[:-1])
    again = order[tied]
    order[tied] = again[np.lexsort([again, *(values[again] for values in (*rest[::-1], first))])]
    return order


def first_occurrence(
    keys: NDArray[np.uint8], chunk: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each row, the index of the first row with the same key, first by (chunk, position).

    `keys` is (n, 16) uint8, `chunk` and `position` are (n,) int64, in any order. Returns (n,)
    int64; a row is its own first occurrence exactly if it is kept, so ``np.flatnonzero(first !=
    np.arange(n))`` are the duplicates.
    """
    keys = np.ascontiguousarray(keys, dtype=np.uint8)
    n = len(keys)
    if keys.shape != (n, KEY_BYTES) or chunk.shape != (n,) or position.shape != (n,):
        raise ValueError(f"expected keys (n, {KEY_BYTES}), chunk (n,), position (n,); got {keys.shape}, {chunk.shape}")
    halves = keys.view(np.uint64)
    order = key_order(halves[:, 0], halves[:, 1], chunk, position)
    ranked = halves[order]
    opens = np.ones(n, dtype=bool)
    opens[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    start = np.maximum.accumulate(np.where(opens, np.arange(n), 0))
    first = np.empty(n, dtype=np.int64)
    first[order] = order[start]
    return first
