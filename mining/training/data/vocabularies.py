"""The units of a data set: learnt from sentences, taken from another folder, kept beside the
arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mining.config.data import TokenKind
from mining.encoder.model_folder import CONFIG_FILE
from mining.errors import UsageError
from mining.io.atomic import replace_file
from mining.io.json_file import json_digest, read_json

if TYPE_CHECKING:
    from mining.encoder.tokenizers import Tokenizer

PREPARED_FILE = "prepared.json"


def save_unit(unit: Tokenizer, folder: Path) -> dict[str, Any]:
    """Write the files of `unit` into `folder`; returns what ``read_unit`` needs to know."""
    files = unit.files()
    for name, data in files.items():
        replace_file(folder / name, data)
    return {
        "kind": unit.kind,
        "settings": dict(unit.settings()),
        "files": {name: _digest(files[name]) for name in files},
    }


def read_unit(described: Mapping[str, Any], folder: Path, mend: str) -> Tokenizer:
    """The unit that ``save_unit`` wrote; raises UsageError when a file is missing or not as it was
    written."""
    from mining.encoder.tokenizers import load_tokenizer

    files = {}
    for name, digest in described["files"].items():
        path = folder / name
        try:
            files[name] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror}); {mend}") from None
        if _digest(files[name]) != digest:
            raise UsageError(f"{path}: is not the file that was written; {mend}")
    try:
        return load_tokenizer(described["kind"], files, described["settings"])
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; {mend}") from None


def foreign_tokenizers(path: str, kinds: Iterable[TokenKind]) -> list[Tokenizer]:
    """The units of the given kinds in a prepared folder or a model folder; raises UsageError when
    it lacks one."""
    folder = Path(path)
    if (folder / PREPARED_FILE).is_file():
        facts = read_json(folder / PREPARED_FILE)
        units = [read_unit(entry, folder, "prepare it again") for entry in facts["units"]]
    elif (folder / CONFIG_FILE).is_file():
        from mining.encoder import load_encoder

        units = list(load_encoder(folder).tokenizers)
    else:
        raise UsageError(f"{folder}: neither a prepared folder nor a model folder: correct vocabulary_from")
    found = {unit.kind: unit for unit in units}
    missing = [kind for kind in kinds if kind not in found]
    if missing:
        raise UsageError(
            f"{folder}: has the units {', '.join(found)}, not {missing[0]}: correct units or vocabulary_from"
        )
    return [found[kind] for kind in kinds]


def units_digest(units: Iterable[Tokenizer]) -> str:
    """Names the vocabularies by their files."""
    digests = [[unit.kind, {name: _digest(data) for name, data in unit.files().items()}] for unit in units]
    return json_digest(digests)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
