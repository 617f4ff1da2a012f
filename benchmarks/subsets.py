"""The first usable pairs of a bitext, by domain, as a plain TSV of two columns."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mining.corpus import BitextSpec, read_rows

#: Of the same kind as the Tatoeba test.
TATOEBA = "tatoeba."
DICTIONARY = "dictionary."


def is_sentence(domain: str) -> bool:
    """Whether a domain holds sentences that may be trained on when Tatoeba is measured."""
    return not domain.startswith((TATOEBA, DICTIONARY))


def is_phrase(domain: str) -> bool:
    """Whether a domain is a dictionary of words and phrases."""
    return domain.startswith(DICTIONARY)


def bitext_spec(path: str | Path) -> BitextSpec:
    """A bitext laid out as source, target, domain."""
    return BitextSpec(path=str(path), columns=["source", "target", "domain"], domain="domain", on_bad_row="skip")


def write_subset(spec: BitextSpec, path: Path, pairs: int, keep: Callable[[str], bool]) -> int:
    """Write at most `pairs` pairs whose domain satisfies `keep`, in the order of the bitext;
    returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    written = 0
    with open(partial, "w", encoding="utf-8", newline="\n") as file:
        for row in read_rows(spec):
            if row.reason is None and keep(row.extra[0]):
                file.write("\t".join(row.texts) + "\n")
                written += 1
                if written == pairs:
                    break
    os.replace(partial, path)
    return written
