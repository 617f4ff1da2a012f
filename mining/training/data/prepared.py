"""Prepared pairs: the folder that ``prepare`` leaves, written batch by batch, opened memory-mapped.

Ids and offsets of each side and kind of tokens, groups of equal texts and domains are flat arrays;
``prepared.json`` describes them and comes last.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
from pydantic import TypeAdapter, ValidationError

from mining.encoder.tokenizers import Tokenizer, load_tokenizer
from mining.encoder.tokens import Tokens
from mining.errors import UsageError
from mining.filters import reasons as filter_reasons
from mining.io.arrays import ArrayFacts, GrowingArray, array_facts, check_contents, open_array, write_array
from mining.io.atomic import replace_file
from mining.io.files import MOST_JSON, read_bytes
from mining.io.json_file import parse_json, write_json
from mining.schemas import SIDES, Reason
from mining.shown import quoted

FORMAT_VERSION = 2
PREPARED_FILE = "prepared.json"
GROUPS, DOMAIN, IDS, OFFSETS = "groups", "domain", "ids", "offsets"
_MEND = "copy the whole folder again, or prepare it anew with --overwrite"

SideTokens = tuple[Tokens, Tokens]
"""The ids of the sources and of the targets of some pairs."""


@dataclass(frozen=True)
class Domain:
    """One domain of the data: ``pairs`` are those kept, ``dropped`` counts the other rows by
    reason."""

    name: str
    languages: tuple[str, str] | None
    weight: float
    pairs: int
    dropped: dict[str, int]


@dataclass(frozen=True)
class TokenizerFacts:
    """A vocabulary in the folder: what `load_tokenizer` needs, and the hash of each file."""

    kind: str
    settings: dict[str, object]
    files: dict[str, str]


@dataclass(frozen=True)
class PreparedFacts:
    """What ``prepared.json`` says, under the names of its format; see `PreparedPairs`."""

    format_version: int
    identity: str
    settings: dict[str, object]
    versions: dict[str, str] | None
    """of the libraries that decide the pairs; None for pairs that came from elsewhere"""
    rows: int
    pairs: int
    dropped: dict[str, int]
    truncated: int
    warnings: list[str]
    units: list[TokenizerFacts]
    domains: list[Domain]
    arrays: dict[str, ArrayFacts]
    """by file, what `array_facts` says"""

    def files(self) -> list[str]:
        """The files that are described."""
        return [*self.arrays, *(name for one in self.units for name in one.files)]

    def write(self, folder: Path) -> None:
        """Write ``prepared.json``."""
        facts = {key: value for key, value in asdict(self).items() if value is not None}
        write_json(folder / PREPARED_FILE, facts, indent=1, sort_keys=False)


@dataclass(frozen=True)
class PreparedPairs:
    """``n`` pairs as ids of one or several kinds of tokens, in the order of the input."""

    folder: Path
    tokenizers: list[Tokenizer]
    source: list[Tokens]
    """of each tokenizer, the memory-mapped ids of ``n`` texts"""
    target: list[Tokens]
    source_groups: np.ndarray
    """(n,) int64: equal numbers for texts that are equal but for case, NFKC and white space, on
    either side"""
    target_groups: np.ndarray
    """(n,) int64, of the same numbering"""
    domain: np.ndarray
    """(n,) uint16: index into `domains`"""
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

    @property
    def kinds(self) -> list[str]:
        """The kinds of the tokenizers."""
        return [tokenizer.kind for tokenizer in self.tokenizers]

    def of_tokens(self, kinds: Sequence[str]) -> PreparedPairs:
        """The same pairs in some of their tokens only; raises UsageError for a kind that was not
        prepared."""
        missing = [kind for kind in kinds if kind not in self.kinds]
        if missing:
            raise UsageError(
                f"{self.folder}: was prepared with the tokens {', '.join(self.kinds)}, not with {missing[0]}: choose "
                f"among these with --tokens, or prepare it anew with --tokens {','.join(kinds)}"
            )
        chosen = [self.kinds.index(kind) for kind in kinds]
        return replace(
            self,
            tokenizers=[self.tokenizers[index] for index in chosen],
            source=[self.source[index] for index in chosen],
            target=[self.target[index] for index in chosen],
        )


class Ledger:
    """How many rows of each domain were dropped, by reason."""

    def __init__(self, dropped: Sequence[Mapping[str, int]]) -> None:
        """`dropped`: what is counted already, of each domain."""
        self.counts = [Counter(dict(counts)) for counts in dropped]

    def drop(self, reason: str, domains: np.ndarray) -> None:
        """Count rows of these `domains`, (n,)."""
        for number, rows in Counter(domains.tolist()).items():
            self.counts[number][str(reason)] += rows

    def of(self, number: int) -> dict[str, int]:
        """The rows of one domain, by reason in the order in which reasons are looked for."""
        return _ordered(self.counts[number])

    def total(self) -> dict[str, int]:
        """The rows of all domains, by reason."""
        return _ordered(sum(self.counts, Counter()))


def _ordered(counts: Counter[str]) -> dict[str, int]:
    names = [str(reason) for reason in Reason]
    filters = names.index(Reason.DUPLICATE)
    names[filters:filters] = filter_reasons()
    return {reason: counts[reason] for reason in names if counts[reason]}


def array_name(name: str, side: str | None = None, kind: str | None = None) -> str:
    """The file of an array: ``pieces.source.ids.npy``, ``source.groups.npy``, ``domain.npy``."""
    return ".".join(part for part in (kind, side, name, "npy") if part)


class PairWriter:
    """Writes the arrays of prepared pairs, batch by batch."""

    def __init__(self, folder: Path, kinds: Sequence[str]) -> None:
        self.arrays: list[str] = []
        """the files written"""
        self._folder, self._stack = folder, ExitStack()
        self._files = {kind: [self._token_arrays(kind, side) for side in SIDES] for kind in kinds}
        self._ends = {kind: [0, 0] for kind in kinds}

    def _token_arrays(self, kind: str, side: str) -> tuple[GrowingArray, GrowingArray]:
        names = array_name(IDS, side, kind), array_name(OFFSETS, side, kind)
        self.arrays += names
        ids = self._stack.enter_context(GrowingArray(self._folder / names[0], "int32"))
        offsets = self._stack.enter_context(GrowingArray(self._folder / names[1], "int64"))
        offsets.append(np.zeros(1, np.int64))
        return ids, offsets

    def append(self, kind: str, sides: SideTokens) -> None:
        """Add the tokens of some pairs."""
        for number, tokens in enumerate(sides):
            ids, offsets = self._files[kind][number]
            ids.append(tokens.ids)
            offsets.append(tokens.offsets[1:] + self._ends[kind][number])
            self._ends[kind][number] += len(tokens.ids)

    def write_labels(self, keys: np.ndarray, domain: np.ndarray) -> None:
        """Write the groups of equal texts, which are those of equal `keys`, (n, 2) uint64, and the
        domains, (n,) uint16."""
        # One numbering for both sides: a sentence may come on either, above all in paraphrases.
        _, groups = np.unique(keys, return_inverse=True)
        groups = groups.reshape(-1, 2).astype(np.int64)
        labels = {array_name(GROUPS, side): groups[:, number] for number, side in enumerate(SIDES)}
        for name, values in {**labels, array_name(DOMAIN): domain}.items():
            write_array(self._folder / name, values)
            self.arrays.append(name)

    def described(self) -> dict[str, ArrayFacts]:
        """What `PreparedFacts.arrays` holds, once all is closed."""
        return {name: array_facts(self._folder / name) for name in sorted(self.arrays)}

    def __enter__(self) -> PairWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> TokenizerFacts:
    """Write the files of `tokenizer` into `folder`; returns what ``read_tokenizer`` needs."""
    files = tokenizer.files()
    for name, data in files.items():
        replace_file(folder / name, data)
    digests = {name: file_digest(data) for name, data in files.items()}
    return TokenizerFacts(tokenizer.kind, dict(tokenizer.settings()), digests)


def read_tokenizer(described: TokenizerFacts, folder: Path, mend: str) -> Tokenizer:
    """What ``save_tokenizer`` wrote; raises UsageError when a file is missing or not as it was
    written."""
    files = {}
    for name, digest in described.files.items():
        path = folder / name
        try:
            files[name] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror}); {mend}") from None
        if file_digest(files[name]) != digest:
            raise UsageError(f"{path}: is not the file that was written; {mend}")
    try:
        return load_tokenizer(described.kind, files, described.settings)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; {mend}") from None


def file_digest(data: bytes) -> str:
    """The BLAKE2b digest (32 hexadecimal digits) of the bytes of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def read_facts(folder: Path) -> PreparedFacts:
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
    try:
        return TypeAdapter(PreparedFacts).validate_python({"versions": None, **facts})
    except ValidationError as error:
        faults = ", ".join(".".join(map(str, item["loc"])) for item in error.errors())
        raise UsageError(f"{path}: lacks or spoils {faults}; {_MEND}") from None


def open_prepared(folder: str | Path, *, whole: bool = False) -> PreparedPairs:
    """Open what ``prepare`` wrote, without reading the arrays unless `whole` asks whether each
    holds what was written.

    Raises UsageError, naming the file, when the folder is none, or a file is missing, truncated or
    of other pairs.
    """
    folder = Path(folder)
    facts = read_facts(folder)
    try:
        arrays = {name: open_array(folder / name, entry, _MEND) for name, entry in facts.arrays.items()}
        for name, entry in facts.arrays.items() if whole else ():
            check_contents(folder / name, entry, _MEND)
        tokenizers = [read_tokenizer(entry, folder, _MEND) for entry in facts.units]
        pairs = PreparedPairs(
            folder=folder,
            tokenizers=tokenizers,
            source=[_tokens(arrays, "source", one.kind) for one in tokenizers],
            target=[_tokens(arrays, "target", one.kind) for one in tokenizers],
            source_groups=arrays[array_name(GROUPS, "source")],
            target_groups=arrays[array_name(GROUPS, "target")],
            domain=arrays[array_name(DOMAIN)],
            domains=facts.domains,
            rows=facts.rows,
            dropped=facts.dropped,
            truncated=facts.truncated,
            warnings=facts.warnings,
            identity=facts.identity,
            contents={name: str(entry["hash"]) for name, entry in facts.arrays.items()},
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"{folder / PREPARED_FILE}: lacks or spoils {error}; {_MEND}") from None
    _check(pairs)
    return pairs


def _tokens(arrays: Mapping[str, np.ndarray], side: str, kind: str) -> Tokens:
    return Tokens(arrays[array_name(IDS, side, kind)], arrays[array_name(OFFSETS, side, kind)])


def _check(pairs: PreparedPairs) -> None:
    """The arrays belong together; raises UsageError otherwise."""
    count = len(pairs)
    unfit = len(pairs.target_groups) != count or len(pairs.domain) != count
    for tokens in (*pairs.source, *pairs.target):
        unfit |= len(tokens.offsets) != count + 1 or int(tokens.offsets[-1]) != len(tokens.ids)
    if unfit:
        raise UsageError(f"{pairs.folder}: its arrays are not of the same pairs; {_MEND}")
