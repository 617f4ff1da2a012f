"""Words to pieces: compiled for unigram models, by sentencepiece itself for all others."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mining.compiled import in_ranges
from mining.encoder.proto import NORMAL, UNIGRAM, ModelFacts
from mining.encoder.tokenizers.pieces import PieceTokenizer
from mining.encoder.tokens import Tokens
from mining.encoder.word_cache import segment_kernels as kernels
from mining.encoder.word_cache.rules import WordRules, word_rules

Segmenter = Callable[[np.ndarray, np.ndarray, int], Tokens]
"""From the words ``data[starts[i]:starts[i + 1]]`` (UTF-8) and a number of threads to all their
pieces, the unknown among them"""
_UNKNOWN_PENALTY = np.float32(10)
"""An unknown character scores so much less than the least probable piece; sentencepiece's
kUnkPenalty."""
_Run = tuple[np.ndarray, np.ndarray]
"""Pieces of consecutive words, end to end, and where each word's end"""
_LEAST = 256
"""Words that are worth a thread."""


def segmenter(tokenizer: PieceTokenizer, rules: WordRules) -> Segmenter:
    """The fastest way to the pieces that `tokenizer`, whose model has the rules `rules`, finds."""
    facts = rules.facts
    if facts.model_type == UNIGRAM and not facts.byte_fallback and not facts.has_own_symbols:
        return _unigram(tokenizer.applied, tokenizer.unknown)
    return _by_sentencepiece(tokenizer)


@functools.lru_cache(maxsize=4)
def _unigram(model: bytes, unknown: int) -> UnigramSegmenter:
    rules = word_rules(model)
    if isinstance(rules, str):
        raise ValueError(f"this model cannot be applied word by word: {rules}")
    return UnigramSegmenter(rules, unknown)


def _by_sentencepiece(tokenizer: PieceTokenizer) -> Segmenter:
    def segment(data: np.ndarray, starts: np.ndarray, threads: int) -> Tokens:
        whole, bounds = data.tobytes(), starts.tolist()
        words = [whole[start:stop].decode() for start, stop in itertools.pairwise(bounds)]
        return tokenizer.all_pieces(words, threads)

    return segment


class _Trie(NamedTuple):
    edges: np.ndarray
    """(power of two,) uint64"""
    shift: np.uint64
    nodes: np.ndarray
    """(nodes,) int32"""
    scores: np.ndarray
    """(pieces,) float32, by id"""


class UnigramSegmenter:
    """Segments words of a unigram model as sentencepiece does, without Python objects."""

    def __init__(self, rules: WordRules, unknown: int) -> None:
        """`unknown`: id of the unknown piece."""
        self._unknown = np.int32(unknown)
        self._trie = _trie(rules.facts)
        normal = [piece.score for piece in rules.facts.pieces if piece.kind == NORMAL]
        self._unknown_score = np.float32(min(normal, default=np.finfo(np.float32).max)) - _UNKNOWN_PENALTY
        self._units, self._values = rules.charsmap.units, rules.charsmap.values
        self._growth = rules.charsmap.growth()

    def __call__(self, data: np.ndarray, starts: np.ndarray, threads: int) -> Tokens:
        """See `Segmenter`."""
        parts: dict[int, list[_Run]] = {}
        lock = threading.Lock()

        def work(first: int, last: int) -> None:
            found = self._range(data, starts, first, last)
            with lock:
                parts[first] = found

        in_ranges(work, len(starts) - 1, threads, _LEAST)
        blocks = [block for first in sorted(parts) for block in parts[first]]
        bases = np.cumsum([0, *(len(ids) for ids, _ in blocks)])
        ends = [block_ends + base for (_, block_ends), base in zip(blocks, bases[:-1], strict=True)]
        ids = np.concatenate([np.zeros(0, np.int32), *(ids for ids, _ in blocks)])
        return Tokens(ids, np.concatenate([np.zeros(1, np.int64), *ends]))

    def _range(
        self, data: np.ndarray, starts: np.ndarray, first: int, last: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and ends of the pieces of the words `first` to `last`, in as many arrays as it
        takes."""
        if first == last:
            return []
        longest = 3 + self._growth * int(np.diff(starts[first : last + 1]).max())
        text, back = np.empty(longest, np.uint8), np.empty(longest + 1, np.int64)
        best, kinds = np.empty(longest + 1, np.float32), np.empty(longest + 1, np.int32)
        room = max(longest, int(starts[last] - starts[first]) + 3 * (last - first))
        trie, found = self._trie, []
        while first < last:
            ids, ends = np.empty(room, np.int32), np.empty(last - first, np.int64)
            done = kernels.segment(
                data, starts, first, last, self._units, self._values, trie.edges, trie.shift, trie.nodes, trie.scores,
                self._unknown, self._unknown_score, text, best, back, kinds, ids, ends,
            )  # fmt: skip
            found.append((ids[: ends[done - 1]], ends[:done]))
            first += done
        return found


def _trie(facts: ModelFacts) -> _Trie:
    """The pieces that occur in texts."""
    ids = [number for number, piece in enumerate(facts.pieces) if piece.kind == NORMAL]
    texts = [facts.pieces[number].text for number in ids]
    flat = np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy()
    ends = np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(np.int64)
    scores = np.array([piece.score for piece in facts.pieces], np.float32)
    most = int(ends[-1])
    while True:
        bits = max(4, (most * 3 // 2).bit_length())
        shift = np.uint64(64 - bits)
        edges, nodes = np.empty(1 << bits, np.uint64), np.empty(ends[-1] + 1, np.int32)
        count = kernels.build_trie(flat, ends, np.array(ids, np.int32), edges, shift, nodes)
        if count >= most // 2:
            return _Trie(edges, shift, nodes[:count].copy(), scores)
        # Tokens share their beginnings: a second table has the size that was needed.
        most = count
