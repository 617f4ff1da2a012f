"""Normalisation and unigram segmentation of words, compiled: sentencepiece's own steps, with the
same roundings.

Kudo 2018, section 3 (unigram language model; the best segmentation by the Viterbi algorithm). The
pieces are kept as a trie whose edges lie in one open-addressing table: key (node, byte) in the
upper half of an entry, child in the lower.
"""

from __future__ import annotations

import numpy as np

from mining.compiled import compiled
from mining.encoder.word_cache.charsmap import child, leaf

_NO_EDGE = np.uint64(0xFFFFFFFFFFFFFFFF)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_UPPER, _BYTE = np.uint64(32), np.uint64(8)
_CHILD = np.uint64(0xFFFFFFFF)
_SPACE = 0x20
_MARK = (0xE2, 0x96, 0x81)
"""UTF-8 of the boundary U+2581"""


@compiled
def _edge(edges, shift, node, byte):  # type: ignore[no-untyped-def]
    """The place of an edge in the table, or the free place where it would go."""
    key = (np.uint64(node) << _BYTE) | np.uint64(byte)
    place = np.int64((key * _SPREAD) >> shift)
    while edges[place] != _NO_EDGE and (edges[place] >> _UPPER) != key:
        place = (place + 1) & (len(edges) - 1)
    return place


@compiled
def build_trie(texts, ends, ids, edges, shift, nodes):  # type: ignore[no-untyped-def]
    """Fill `edges` and `nodes` (id of the piece that ends at a node, -1 without one) from the
    pieces' texts."""
    edges[:] = _NO_EDGE
    nodes[:] = -1
    count = 1
    for piece in range(len(ids)):
        node = np.int64(0)
        for place in range(ends[piece], ends[piece + 1]):
            found = _edge(edges, shift, node, texts[place])
            if edges[found] == _NO_EDGE:
                key = (np.uint64(node) << _BYTE) | np.uint64(texts[place])
                edges[found] = (key << _UPPER) | np.uint64(count)
                count += 1
            node = np.int64(edges[found] & _CHILD)
        nodes[node] = ids[piece]
    return count


@compiled
def _character(byte):  # type: ignore[no-untyped-def]
    """Bytes of the UTF-8 character that starts with `byte`."""
    if byte < 0xC0:
        return 1
    if byte < 0xE0:
        return 2
    return 3 if byte < 0xF0 else 4


@compiled
def _match(units, data, place, stop):  # type: ignore[no-untyped-def]
    """Length of the longest key at `place` and where its replacement starts; length 0 without
    one."""
    node, length, value = np.int64(0), 0, np.int64(0)
    for step in range(place, stop):
        node = child(units, node, np.int64(data[step]))
        if node < 0:
            break
        found = leaf(units, node)
        if found >= 0:
            length, value = step + 1 - place, found
    return length, value


@compiled
def _append(byte, out, size):  # type: ignore[no-untyped-def]
    """Write one normalised byte, a space as the boundary; the new size."""
    if byte != _SPACE:
        out[size] = byte
        return size + 1
    out[size], out[size + 1], out[size + 2] = _MARK
    return size + 3


@compiled
def normalise(data, start, stop, units, values, out):  # type: ignore[no-untyped-def]
    """Write the normal form of a word, boundary first; its length, 0 when nothing is left of the
    word.

    White space at the start and after white space is left out, and at the end.
    """
    out[0], out[1], out[2] = _MARK
    size, place, blank = 3, start, True
    while place < stop:
        length, value = _match(units, data, place, stop)
        if length == 0:
            length = min(_character(data[place]), stop - place)
            for step in range(place, place + length):
                out[size] = data[step]
                size += 1
            blank = False
        elif values[value] != 0:
            # White space at the start of a replacement falls to white space before it; within it,
            # it stays.
            while values[value] == _SPACE and blank:
                value += 1
            while values[value] != 0:
                blank = values[value] == _SPACE
                size = _append(values[value], out, size)
                value += 1
        place += length
    while size >= 3 and out[size - 3] == _MARK[0] and out[size - 2] == _MARK[1] and out[size - 1] == _MARK[2]:
        size -= 3
    return size


@compiled
def _viterbi(text, size, edges, shift, nodes, scores, unknown, unknown_score, best, back, kinds):  # type: ignore[no-untyped-def]
    """Best segmentation of each prefix: `best` (score), `back` (where its last piece starts) and
    `kinds` (its id).

    As in sentencepiece, scores are added in float32 from the start of the word.
    """
    back[: size + 1] = -1
    best[0] = 0.0
    start = 0
    while start < size:
        till = best[start]
        length = min(_character(text[start]), size - start)
        single, node = False, np.int64(0)
        for stop in range(start + 1, size + 1):
            edge = edges[_edge(edges, shift, node, text[stop - 1])]
            if edge == _NO_EDGE:
                break
            node = np.int64(edge & _CHILD)
            piece = nodes[node]
            if piece < 0:
                continue
            score = till + scores[piece]
            if back[stop] < 0 or score > best[stop]:
                best[stop], back[stop], kinds[stop] = score, start, piece
            single = single or stop - start == length
        if not single:
            score = till + unknown_score
            stop = start + length
            if back[stop] < 0 or score > best[stop]:
                best[stop], back[stop], kinds[stop] = score, start, unknown
        start += length


@compiled
def _pieces(size, back, kinds, unknown, ids, stop, write):  # type: ignore[no-untyped-def]
    """Pieces of the best segmentation, written so that they end before ``ids[stop]``; their number.

    A run of unknown characters is one unknown piece.
    """
    count, place, last = 0, size, np.int32(-1)
    while place > 0:
        piece = kinds[place]
        if piece != unknown or last != unknown:
            count += 1
            if write:
                ids[stop - count] = piece
        last = piece
        place = back[place]
    return count


@compiled
def segment(  # type: ignore[no-untyped-def]
    data, starts, first, last, units, values, edges, shift, nodes, scores, unknown, unknown_score,
    text, best, back, kinds, ids, ends,
):  # fmt: skip
    """Write the pieces of the words `first` to `last` to `ids`, from its start; how many words
    there was room for."""
    total = 0
    for word in range(first, last):
        size = normalise(data, starts[word], starts[word + 1], units, values, text)
        if total + size > len(ids):
            return word - first
        _viterbi(text, size, edges, shift, nodes, scores, unknown, unknown_score, best, back, kinds)
        count = _pieces(size, back, kinds, unknown, ids, total, False)
        total += _pieces(size, back, kinds, unknown, ids, total + count, True)
        ends[word - first] = total
    return last - first
