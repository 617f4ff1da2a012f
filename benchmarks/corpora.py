"""Large corpora of real sentences: two files of distinct sentences, line `i` of one translating
line `i` of the other.

They are made from ``$BITEXT_DATA/bitext`` (default ``../shared/data/bitext``), English against the
other languages in turn, and kept in a folder of the caller. A smaller corpus is the beginning of a
larger one.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from subsets import bitext_spec, is_phrase

from mining.corpus import dedup_key, read_rows

LANGUAGES = ("de", "fr", "es", "ru", "tr", "zh", "ar")
SOURCE, TARGET, GOLD = "source.tsv", "target.tsv", "gold.tsv"


def bitext_folder() -> Path:
    """Where the bitexts are; raises SystemExit when they are absent."""
    folder = Path(os.environ.get("BITEXT_DATA", "../shared/data"), "bitext")
    if not folder.is_dir():
        raise SystemExit(f"{folder}: no such folder; set BITEXT_DATA to the folder of the evaluation data")
    return folder


def sentence_pairs(language: str) -> Iterator[tuple[str, str]]:
    """English and other sentence of each usable pair, words and phrases of dictionaries left
    out."""
    for row in read_rows(bitext_spec(bitext_folder() / f"en-{language}.tsv.xz")):
        if row.reason is None and not is_phrase(row.extra[0]):
            yield row.texts[0], row.texts[1]


def distinct_pairs(languages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pairs of the languages in turn of which neither sentence was seen before."""
    seen: tuple[set[bytes], set[bytes]] = (set(), set())
    for pairs in itertools.zip_longest(*map(sentence_pairs, languages)):
        for pair in filter(None, pairs):
            keys = dedup_key(pair[0]), dedup_key(pair[1])
            if keys[0] not in seen[0] and keys[1] not in seen[1]:
                seen[0].add(keys[0])
                seen[1].add(keys[1])
                yield pair


def write_corpora(folder: Path, rows: int, languages: tuple[str, ...] = LANGUAGES) -> Path:
    """The folder of corpora of `rows` sentences a side (`SOURCE`, `TARGET`: id, text) and their
    gold pairs.

    What is there already is used. Raises SystemExit when the bitexts hold fewer pairs.
    """
    corpora = folder / f"{'-'.join(languages)}-{rows}"
    done = corpora / "done.json"
    if done.exists():
        return corpora
    corpora.mkdir(parents=True, exist_ok=True)
    names = SOURCE, TARGET, GOLD
    with (
        open(corpora / names[0], "w", encoding="utf-8", newline="\n") as source,
        open(corpora / names[1], "w", encoding="utf-8", newline="\n") as target,
        open(corpora / names[2], "w", encoding="utf-8", newline="\n") as gold,
    ):
        written = 0
        for number, (english, other) in enumerate(itertools.islice(distinct_pairs(languages), rows)):
            # The ids say nothing of the order of the other side.
            partner = number * 7_919 % rows
            source.write(f"en-{number}\t{_one_line(english)}\n")
            target.write(f"xx-{partner}\t{_one_line(other)}\n")
            gold.write(f"en-{number}\txx-{partner}\n")
            written += 1
    if written < rows:
        raise SystemExit(f"the bitexts hold {written:,} distinct pairs of {', '.join(languages)}, not {rows:,}")
    done.write_text(json.dumps({"rows": rows}), encoding="utf-8")
    return corpora


def gold_pairs(corpora: Path) -> dict[str, str]:
    """The target id of each source id."""
    lines = (corpora / GOLD).read_text(encoding="utf-8").rstrip("\n").split("\n")
    return dict(line.split("\t") for line in lines)


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")
