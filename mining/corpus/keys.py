"""Keys of many texts or ids at once: BLAKE2b (RFC 7693) compiled, equal to `dedup_key` and to
``hashlib``.

Most texts need no normalisation, which a kernel sees from their bytes; the others go through
`dedup_key` one by one.
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mining.compiled import compiled, in_ranges
from mining.corpus.cells import string_buffers
from mining.corpus.dedup import KEY_BYTES, dedup_key
from mining.unseen import UNSEEN

_BLOCK = 128
_WORDS = 16
_IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.int64,
)
#: No key, digests of `KEY_BYTES`, no tree.
_PARAMETERS = np.uint64(0x01010000 | KEY_BYTES)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_B8, _B16, _B24, _B32, _B40, _B48, _B63, _B1 = (np.uint64(bits) for bits in (8, 16, 24, 32, 40, 48, 63, 1))
#: Keys below which another thread does not pay.
_LEAST_KEYS = 2048


@compiled
def _turn(value, right, left):  # type: ignore[no-untyped-def]
    return (value >> right) | (value << left)


@compiled
def _mix(v, a, b, c, d, x, y):  # type: ignore[no-untyped-def]
    """The function G of RFC 7693, section 3.1."""
    v[a] = v[a] + v[b] + x
    v[d] = _turn(v[d] ^ v[a], _B32, _B32)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], _B24, _B40)
    v[a] = v[a] + v[b] + y
    v[d] = _turn(v[d] ^ v[a], _B16, _B48)
    v[c] = v[c] + v[d]
    v[b] = _turn(v[b] ^ v[c], _B63, _B1)


@compiled
def _compress(state, v, words, counter, last):  # type: ignore[no-untyped-def]
    """The function F of RFC 7693, section 3.2."""
    for i in range(8):
        v[i], v[i + 8] = state[i], _IV[i]
    v[12] ^= counter
    if last:
        v[14] ^= _ONES
    for r in range(12):
        for i in range(4):
            _mix(v, i, 4 + i, 8 + i, 12 + i, words[_SIGMA[r, 2 * i]], words[_SIGMA[r, 2 * i + 1]])
        for i in range(4):
            x, y = words[_SIGMA[r, 8 + 2 * i]], words[_SIGMA[r, 9 + 2 * i]]
            _mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, x, y)
    for i in range(8):
        state[i] ^= v[i] ^ v[i + 8]


@compiled
def _load(data, start, stop, held):  # type: ignore[no-untyped-def]
    """Up to 128 bytes, with zeros behind, into the bytes of the words (little-endian, as every
    machine of numba)."""
    for i in range(stop - start):
        held[i] = data[start + i]
    held[stop - start :] = 0


@compiled
def _digest(data, start, stop, state, v, words, held):  # type: ignore[no-untyped-def]
    for i in range(8):
        state[i] = _IV[i]
    state[0] ^= _PARAMETERS
    at = start
    while stop - at > _BLOCK:
        _load(data, at, at + _BLOCK, held)
        at += _BLOCK
        _compress(state, v, words, np.uint64(at - start), False)
    _load(data, at, stop, held)
    _compress(state, v, words, np.uint64(stop - start), True)


@compiled
def _digests(data, offsets, plain, first, last, keys):  # type: ignore[no-untyped-def]
    state, v, words = np.empty(8, np.uint64), np.empty(16, np.uint64), np.empty(_WORDS, np.uint64)
    held = words.view(np.uint8)
    for row in range(first, last):
        if plain[row]:
            _digest(data, offsets[row], offsets[row + 1], state, v, words, held)
            keys[row, 0], keys[row, 1] = state[0], state[1]


@compiled
def _is_plain(data, start, stop, steady):  # type: ignore[no-untyped-def]
    """Whether `dedup_key` hashes these bytes as they are."""
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
def _find_plain(data, offsets, steady, first, last, plain):  # type: ignore[no-untyped-def]
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
    """`dedup_key` of each text (n strings, none null), (n, 16) uint8; `threads` 0 stands for all
    cores."""
    data, offsets = string_buffers(texts)
    plain = np.empty(len(texts), dtype=bool)
    steady = steady_codes()
    in_ranges(lambda a, b: _find_plain(data, offsets, steady, a, b, plain), len(texts), threads, _LEAST_KEYS)
    keys = _hashed(data, offsets, plain, threads)
    other = np.flatnonzero(~plain)
    if len(other):
        digests = b"".join(map(dedup_key, texts.take(pa.array(other)).to_pylist()))
        keys[other] = np.frombuffer(digests, dtype=np.uint8).reshape(-1, KEY_BYTES)
    return keys


def id_keys(ids: pa.Array, threads: int = 0) -> NDArray[np.uint8]:
    """BLAKE2b of the UTF-8 of each id (n strings, none null), (n, 16) uint8."""
    data, offsets = string_buffers(ids)
    return _hashed(data, offsets, np.ones(len(ids), dtype=bool), threads)


def _hashed(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], plain: NDArray[np.bool_], threads: int
) -> NDArray[np.uint8]:
    keys = np.zeros((len(plain), 2), dtype=np.uint64)
    in_ranges(lambda a, b: _digests(data, offsets, plain, a, b, keys), len(plain), threads, _LEAST_KEYS)
    return keys.astype("<u8", copy=False).view(np.uint8).reshape(-1, KEY_BYTES)
