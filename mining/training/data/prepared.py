"""Prepared pairs: what ``prepare`` leaves on disk, opened memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mining.encoder.tokens import Tokens
from mining.errors import UsageError
from mining.io.arrays import check_contents, open_array
from mining.io.files import MOST_JSON, read_bytes
from mining.io.json_file import parse_json
from mining.shown import quoted
from mining.training.data.vocabularies import PREPARED_FILE, read_unit

if TYPE_CHECKING:
    from mining.encoder.tokenizers import Tokenizer

FORMAT_VERSION = 2
GROUPS, DOMAIN, IDS, OFFSETS = "groups", "domain", "ids", "offsets"
_MEND = "copy the whole folder again, or prepare it anew with --overwrite"


@dataclass(frozen=True)
class Domain:
    """One domain of the data: ``pairs`` are those kept, ``dropped`` counts the other rows by
    reason."""

    name: str
    weight: float
    pairs: int
    dropped: dict[str, int]
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class PreparedPairs:
    """``n`` pairs as ids of one or several units, in the order of the input."""

    folder: Path
    tokenizers: list[Tokenizer]
    kinds: list[str]
    source: list[Tokens]
    """of each unit, the memory-mapped ids of ``n`` texts"""
    target: list[Tokens]
    source_groups: np.ndarray
    """(n,) int64: equal numbers for texts that are equal but for case, NFKC and white space, on
    either side"""
    target_groups: np.ndarray
    """(n,) int64, of the same numbering"""
    domain: np.ndarray
    """(n,) uint16: place in `domains`"""
    domains: list[Domain]
    rows: int
    """rows read; pairs kept and dropped add up to them"""
    dropped: dict[str, int]
    """rows left out, by reason"""
    truncated: int
    """sentences cut at ``max_pieces``"""
    warnings: list[str]
    identity: str
    """names settings and input that decided the data"""
    contents: dict[str, str]
    """by file of an array, the hash of what was written"""

    def __len__(self) -> int:
        return len(self.source_groups)

    def of_units(self, kinds: Sequence[str]) -> PreparedPairs:
        """The same pairs in some of their units only; raises UsageError for a kind that was not
        prepared."""
        missing = [kind for kind in kinds if kind not in self.kinds]
        if missing:
            raise UsageError(
                f"{self.folder}: was prepared with the units {', '.join(self.kinds)}, not with {missing[0]}: choose "
                f"among these with --units, or prepare it anew with --units {','.join(kinds)}"
            )
        places = [self.kinds.index(kind) for kind in kinds]
        return replace(
            self,
            tokenizers=[self.tokenizers[place] for place in places],
            kinds=list(kinds),
            source=[self.source[place] for place in places],
            target=[self.target[place] for place in places],
        )


def array_name(name: str, side: str | None = None, kind: str | None = None) -> str:
    """The file of an array: ``pieces.source.ids.npy``, ``source.groups.npy``, ``domain.npy``."""
    return ".".join(part for part in (kind, side, name, "npy") if part)


def read_facts(folder: Path) -> dict[str, Any]:
    """What ``prepared.json`` says; raises UsageError when it is missing, damaged or of another
    version."""
    path = folder / PREPARED_FILE
    if not path.is_file():
        found = "no such folder" if not folder.exists() else "not a prepared folder, it lacks " + PREPARED_FILE
        raise UsageError(f"{folder}: {found}; make one with `bitext prepare`")
    try:
        facts = parse_json(read_bytes(path, MOST_JSON))
        version = facts["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not a readable description of prepared pairs ({error}); {_MEND}") from None
    if version != FORMAT_VERSION:
        raise UsageError(
            f"{path}: is of format {quoted(version)}, this version reads {FORMAT_VERSION}: prepare the pairs anew"
        )
    return dict(facts)


def open_prepared(folder: str | Path, *, whole: bool = False) -> PreparedPairs:
    """Open what ``prepare`` wrote, without reading the arrays unless `whole` asks whether each
    holds what was written.

    Raises UsageError, naming the file, when the folder is none, or a file is missing, truncated or
    of other pairs.
    """
    folder = Path(folder)
    facts = read_facts(folder)
    try:
        arrays = {name: open_array(folder / name, entry, _MEND) for name, entry in facts["arrays"].items()}
        for name, entry in facts["arrays"].items() if whole else ():
            check_contents(folder / name, entry, _MEND)
        units = [read_unit(entry, folder, _MEND) for entry in facts["units"]]
        kinds = [unit.kind for unit in units]
        pairs = PreparedPairs(
            folder=folder,
            tokenizers=units,
            kinds=kinds,
            source=[_pieces(arrays, "source", kind) for kind in kinds],
            target=[_pieces(arrays, "target", kind) for kind in kinds],
            source_groups=arrays[array_name(GROUPS, "source")],
            target_groups=arrays[array_name(GROUPS, "target")],
            domain=arrays[array_name(DOMAIN)],
            domains=[_domain(entry) for entry in facts["domains"]],
            rows=facts["rows"],
            dropped=facts["dropped"],
            truncated=facts["truncated"],
            warnings=facts["warnings"],
            identity=facts["identity"],
            contents={name: entry["hash"] for name, entry in facts["arrays"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{folder / PREPARED_FILE}: lacks or spoils {error}; {_MEND}") from None
    _check(pairs)
    return pairs


def _pieces(arrays: dict[str, np.ndarray], side: str, kind: str) -> Tokens:
    return Tokens(arrays[array_name(IDS, side, kind)], arrays[array_name(OFFSETS, side, kind)])


def _domain(entry: dict[str, Any]) -> Domain:
    languages = entry["languages"]
    return Domain(**{**entry, "languages": tuple(languages) if languages else None})


def _check(pairs: PreparedPairs) -> None:
    """The arrays belong together; raises UsageError otherwise."""
    count = len(pairs)
    unfit = len(pairs.target_groups) != count or len(pairs.domain) != count
    for pieces in (*pairs.source, *pairs.target):
        unfit |= len(pieces.offsets) != count + 1 or int(pieces.offsets[-1]) != len(pieces.ids)
    if unfit:
        raise UsageError(f"{pairs.folder}: its arrays are not of the same pairs; {_MEND}")
