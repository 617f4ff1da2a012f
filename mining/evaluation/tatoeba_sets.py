"""Finding and reading line-aligned test sets: files named as LASER names them, folders of these, or
any bitext."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mining.config.base import validate
from mining.corpus import BitextSpec, list_inputs, read_rows
from mining.corpus.spec import layout, without_compression
from mining.errors import InputError, UsageError
from mining.schemas import Reason

#: ``tatoeba.deu-eng.deu``: both languages, then the one of this file.
_NAME = re.compile(r"(?P<stem>(?:.*\.)?(?P<first>[^.-]+)-(?P<second>[^.-]+))\.(?P<side>[^.-]+)")


@dataclass(frozen=True)
class AlignedSet:
    """A test set: `name`, and `source` and `target`, texts aligned by their place; "" for one that
    cannot be used."""

    name: str
    source: list[str]
    target: list[str]


class _Half(NamedTuple):
    """One of the two files of a set: `key` tells the set, `position` 0 is the source side."""

    path: str
    key: tuple[str, str]
    position: int
    label: str


def _half(path: str) -> _Half | None:
    """The place of a file in its set by its name, None for another name."""
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(without_compression(name))
    if match is None or match["side"] not in (match["first"], match["second"]) or match["first"] == match["second"]:
        return None
    label = f"{match['first']}-{match['second']}"
    return _Half(path, (folder, match["stem"]), int(match["side"] == match["second"]), label)


def _listing(folder: str) -> list[str]:
    try:
        return sorted(os.path.join(folder or os.curdir, name) for name in os.listdir(folder or os.curdir))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None


def _partner(half: _Half) -> _Half:
    """The other file of the set; raises UsageError when it is not there."""
    folder, stem = half.key
    for path in _listing(folder):
        other = _half(path)
        if other is not None and other.key[1] == stem and other.position != half.position:
            return other._replace(key=half.key, path=os.path.join(folder, os.path.basename(path)))
    missing = f"{stem}.{half.label.split('-')[1 - half.position]}"
    raise UsageError(f"{half.path}: its other side, {os.path.join(folder, missing)}, is not there: put it beside")


def _named_sets(halves: Sequence[_Half]) -> dict[str, list[str]]:
    """The paths of each set by name: the pair of languages, or the whole stem where that would say
    too little."""
    sets: dict[tuple[str, str], list[str]] = {}
    labels: dict[tuple[str, str], str] = {}
    for half in halves:
        if half.key not in sets:
            other = _partner(half)
            sets[half.key] = [side.path for side in sorted((half, other), key=lambda side: side.position)]
            labels[half.key] = half.label
    repeated = len(set(labels.values())) < len(labels)
    return {os.path.join(*key) if repeated else labels[key]: paths for key, paths in sets.items()}


def find_aligned(paths: Sequence[str], options: Mapping[str, Any] | None = None) -> dict[str, BitextSpec]:
    """The test sets meant by `paths`, by name.

    A folder stands for all sets in it and a file of a set for the whole set, if they are named
    ``NAME.AAA-BBB.{AAA,BBB}``. All other files are bitexts, read by `options` (keys of
    `BitextSpec`): two plain text files are one set, a file of any other format is one by itself.
    With a `format` or `columns` in `options` names play no part. Raises UsageError when a path
    names nothing of this kind or two sets have one name.
    """
    options = {key: value for key, value in (options or {}).items() if value is not None}
    halves: list[_Half] = []
    others: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            found = [half for half in map(_half, _listing(path)) if half is not None]
            if not found:
                raise UsageError(f"{path}: holds no files named like tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
            halves += found
            continue
        half = _half(path) if not {"format", "columns"} & set(options) and os.path.isfile(path) else None
        if half is None:
            others.append(path)
        else:
            halves.append(half)
    sets = {
        name: validate(BitextSpec, {"path": pair, "format": "text"}, name) for name, pair in _named_sets(halves).items()
    }
    for name, spec in _bitexts(others, options):
        if name in sets:
            raise UsageError(f"{name}: two of the sets have this name: evaluate them one by one")
        sets[name] = spec
    return sets


def _bitexts(paths: Sequence[str], options: dict[str, Any]) -> list[tuple[str, BitextSpec]]:
    specs: list[tuple[str, BitextSpec]] = []
    plain: list[str] = []
    for path in paths:
        spec = validate(BitextSpec, {"path": path, **options}, path)
        if layout(spec, path).format == "text":
            plain.append(path)
        else:
            list_inputs(spec)
            specs.append((os.path.basename(path), spec))
    if plain:
        spec = validate(BitextSpec, {"path": plain, **options}, ", ".join(plain))
        list_inputs(spec)
        specs.append((os.path.basename(plain[0]), spec))
    return specs


def read_aligned(name: str, spec: BitextSpec) -> AlignedSet:
    """Read a test set whole; a row that cannot be used keeps its place.

    Raises InputError for faulty content (unequal numbers of lines, invalid UTF-8, a bad row) and
    when there is no pair.
    """
    source, target = [], []
    for row in read_rows(spec):
        # Of a row with one blank side the other one still is a sentence that can be found.
        pair = row.texts if row.reason in (None, Reason.BLANK) else ("", "")
        source.append(pair[0] if pair[0].strip() else "")
        target.append(pair[1] if pair[1].strip() else "")
    if not source:
        raise InputError(f"{', '.join(spec.paths)}: holds no pairs: give files with one sentence a line")
    return AlignedSet(name, source, target)
