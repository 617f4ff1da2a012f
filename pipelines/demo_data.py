"""The demo's task: which translations to hide among unaligned sentences, and how."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mining.corpus import dedup_key

ROLES = ("aligned", "source_only", "target_only")
LETTERS_SHARE = 0.7
"""Least share of letters and spaces among the characters of a sentence."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Task(NamedTuple):
    """Two piles of ``(id, text)`` in which the translations of `gold`, ``(source id, target id)``,
    are hidden."""

    source: list[tuple[str, str]]
    target: list[tuple[str, str]]
    gold: list[tuple[str, str]]


def letters_key(text: str) -> bytes:
    """16 bytes that are equal for texts equal up to case, white space, punctuation, digits and
    symbols.

    >>> from pipelines.demo_data import letters_key
    >>> letters_key("Delete 3 files?") == letters_key("delete %d files")
    False
    >>> letters_key("Delete 3 files?") == letters_key("delete files")
    True
    """
    words = "".join(char if char.isalpha() else " " for char in text.lower())
    return dedup_key(words)


def clean_pairs(pairs: Iterable[Sequence[str]], max_words: int = 60) -> list[Pair]:
    """Distinct pairs (by `letters_key` of both sides) in order of first occurrence, white space
    runs made one space.

    Left out are pairs with a side that is not mostly words (code, patterns), with a side of more
    than `max_words` words (a paragraph rather than a sentence), and pairs left untranslated (both
    sides equal by `letters_key`).
    """
    kept: dict[tuple[bytes, bytes], Pair] = {}
    for source, target in pairs:
        pair = Pair(" ".join(source.split()), " ".join(target.split()))
        keys = letters_key(pair.source), letters_key(pair.target)
        if keys[0] != keys[1] and all(_is_words(text) and len(text.split()) <= max_words for text in pair):
            kept.setdefault(keys, pair)
    return list(kept.values())


def _is_words(text: str) -> bool:
    return bool(text) and sum(char.isalpha() or char == " " for char in text) >= LETTERS_SHARE * len(text)


def choose_pairs(pairs: Sequence[Pair], count: int, min_words: int, seed: int) -> list[Pair]:
    """At most `count` pairs to hide, in the order of a hash of their text.

    Pairs of at least `min_words` words whose sentences occur in no other pair (compared by
    `letters_key`), so that each hidden sentence has exactly one translation.
    """
    # On either side: a sentence may be the same in both languages.
    met = Counter(letters_key(text) for pair in pairs for text in pair)
    alone = [
        pair for pair in pairs if len(pair.source.split()) >= min_words and all(met[letters_key(t)] == 1 for t in pair)
    ]
    return sorted(alone, key=lambda pair: _draw(pair, seed))[:count]


def hide(pairs: Sequence[Pair], seed: int, source_prefix: str = "en", target_prefix: str = "de") -> Task:
    """Make a mining task: of each three pairs one stays a pair, one leaves only its source, one
    only its target.

    Which one is drawn by a hash of the texts, both sides are shuffled each by its own hash, and ids
    count the places after the shuffle: neither order nor ids say what belongs together.
    """
    drawn = sorted(pairs, key=lambda pair: _draw(pair, seed))
    roles = {pair: ROLES[place % len(ROLES)] for place, pair in enumerate(drawn)}
    sides: list[list[tuple[str, str]]] = []
    for side, left_out, prefix in ((0, "target_only", source_prefix), (1, "source_only", target_prefix)):
        texts = [pair[side] for pair, role in roles.items() if role != left_out]
        shuffled = sorted(texts, key=lambda text: _digest(f"{seed} {prefix} {text}"))
        sides.append([(f"{prefix}-{place:06d}", text) for place, text in enumerate(shuffled, 1)])
    source_ids, target_ids = ({text: row_id for row_id, text in rows} for rows in sides)
    gold = [(source_ids[p.source], target_ids[p.target]) for p, role in roles.items() if role == "aligned"]
    return Task(sides[0], sides[1], sorted(gold))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _draw(pair: Pair, seed: int) -> bytes:
    return _digest(f"{seed}\t{pair.source}\t{pair.target}")
