"""From bitexts to prepared pairs on disk: filter, learn the vocabularies, write the ids."""

from __future__ import annotations

import os
import shutil
import unicodedata
from importlib import metadata
from pathlib import Path

import numpy as np

from mining.config.data import DataConfig
from mining.corpus import InputFile, list_inputs
from mining.errors import InputError, UsageError
from mining.io.files import file_hash
from mining.io.json_file import json_digest, read_json, write_json
from mining.io.lock import locked
from mining.training.data.ids import write_ids
from mining.training.data.prepared import (
    FORMAT_VERSION,
    PREPARED_FILE,
    Domain,
    Ledger,
    PairWriter,
    PreparedFacts,
    PreparedPairs,
    open_prepared,
    read_facts,
)
from mining.training.data.read import Report, Spool, name_inputs, read_pairs
from mining.training.data.select import select
from mining.training.data.vocabulary import given_tokenizers, make_tokenizers, tokenizers_digest
from mining.unseen import READING

PARTIAL_FOLDER = "partial"
"""What is unfinished lies here, in the folder to be prepared."""
_BEGUN_FILE = "begun.json"


def silent(stage: str, pairs: int) -> None:
    """Tell nobody."""


def prepare(
    config: DataConfig, folder: str | Path, report: Report = silent, threads: int = 0, *, overwrite: bool = False
) -> PreparedPairs:
    """Prepare the pairs of `config` in `folder`, or open what is there already.

    Killed at any moment and called again, it takes up the parts that were finished; the files are
    the same, byte by byte, whatever the number of `threads` (0: all cores). `report` is told the
    stage (reading, vocabulary, pieces) and the pairs done. Raises UsageError for a folder prepared
    from other settings or input (unless `overwrite`) or in use, InputError for faulty input or when
    no pair can be used.
    """
    folder = Path(folder)
    identity = identify(config)
    _make(folder)
    taken = f"{folder}: is being prepared already; wait for it, or name another folder"
    with locked(folder, lambda: UsageError(taken)):
        if (folder / PREPARED_FILE).is_file():
            try:
                if _same(folder, config, identity):
                    return open_prepared(folder, whole=True)
            except UsageError:
                if not overwrite:
                    raise
            clear(folder)
        partial = _begin(folder, config, identity)
        if not (partial / PREPARED_FILE).is_file():
            _fill(config, partial, identity, report, threads)
        _publish(partial, folder)
        return open_prepared(folder)


def is_prepared(config: DataConfig, folder: str | Path) -> bool:
    """Whether the folder holds the finished pairs of exactly these settings and this input.

    Raises UsageError when it does, but a file of it is not as it was written.
    """
    folder = Path(folder)
    if not (folder / PREPARED_FILE).is_file() or read_facts(folder).identity != identify(config):
        return False
    open_prepared(folder, whole=True)
    return True


def identify(config: DataConfig) -> str:
    """Names what decides the prepared pairs: settings, bytes of the input, given vocabularies and
    models, libraries.

    Where the files lie does not matter. Raises UsageError when one is missing.
    """
    inputs = []
    for spec in config.bitext:
        for file in list_inputs(spec):
            inputs.append([file.name if spec.domain is None else "", *file_hashes(file)])
    facts: dict[str, object] = {"format": FORMAT_VERSION, "settings": config.deciding(), "inputs": inputs}
    facts |= {"reading": READING, "versions": _versions(config)}
    if config.vocabulary_from is not None:
        facts["vocabulary"] = tokenizers_digest(given_tokenizers(config.vocabulary_from, config.tokens))
    for one in config.filters.active():
        facts |= one.inputs()
    return json_digest(facts)


def file_hashes(file: InputFile) -> list[str]:
    """The hash of an input, or of both files of one that has its target beside it."""
    return [file_hash(path) for path in (file.path, file.target_path) if path is not None]


def _versions(config: DataConfig) -> dict[str, str]:
    """Of what decides the pairs: Unicode's tables (keys, lower case), what makes pieces and what
    tells languages."""
    packages = ["sentencepiece"] * ("pieces" in config.tokens)
    packages += [package for one in config.filters.active() for package in one.packages]
    return {"unicode": unicodedata.unidata_version, **{name: _version(name) for name in packages}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # told where it is needed
        return "none"


def clear(folder: Path) -> None:
    """Remove prepared pairs, finished or not; ``prepared.json`` goes last, and other files stay."""
    shutil.rmtree(folder / PARTIAL_FOLDER, ignore_errors=True)
    try:
        names = read_facts(folder).files()
    except UsageError:
        names = []
    for name in names:
        # The names come from a file: nothing outside the folder is touched.
        if Path(name).name == name:
            (folder / name).unlink(missing_ok=True)
    (folder / PREPARED_FILE).unlink(missing_ok=True)


def _same(folder: Path, config: DataConfig, identity: str) -> bool:
    facts = read_facts(folder)
    if facts.identity == identity:
        return True
    raise UsageError(
        f"{folder}: holds pairs prepared otherwise (it differs in {_difference(facts, config)}); name another folder, "
        "or start anew with --overwrite"
    )


def _difference(facts: PreparedFacts, config: DataConfig) -> str:
    old = {**facts.settings, "versions": facts.versions}
    new: dict[str, object] = {**config.deciding(), "versions": _versions(config)}
    names = {"units": "tokens"}
    return ", ".join(names.get(key, key) for key in new if old.get(key) != new[key]) or "the contents of its input"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}; name another folder") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: cannot be written; name another folder")


def _begin(folder: Path, config: DataConfig, identity: str) -> Path:
    """The folder of the unfinished parts; parts of other settings or input are thrown away."""
    partial = folder / PARTIAL_FOLDER
    try:
        begun = read_json(partial / _BEGUN_FILE)["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        begun = None
    if begun != identity:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write_json(partial / _BEGUN_FILE, {"identity": identity})
    return partial


def _fill(config: DataConfig, partial: Path, identity: str, report: Report, threads: int) -> None:
    """Do what is not done yet; ``prepared.json`` is written last."""
    report("reading", 0)
    spool = read_pairs(config, partial, report, threads)
    if identify(config) != identity:
        shutil.rmtree(partial, ignore_errors=True)
        raise InputError(f"{name_inputs(config.bitext)}: changed while it was read; run the command again")
    ledger = Ledger([domain.dropped for domain in spool.domains])
    keep = select(spool, ledger, duplicates=config.filters.duplicates, seed=config.seed)
    _check_some(keep, config, spool, ledger)
    tokenizers, described = make_tokenizers(config, spool, keep, partial, report)
    with PairWriter(partial, [tokenizer.kind for tokenizer in tokenizers]) as writer:
        kept, truncated = write_ids(config, spool, keep, tokenizers, writer, ledger, report, threads)
    _check_some(kept, config, spool, ledger)
    writer.write_labels(spool.keys[kept], spool.domain[kept])
    pairs = np.bincount(spool.domain[kept], minlength=len(spool.domains)).tolist()
    domains = [
        Domain(domain.name, domain.languages, domain.weight, count, ledger.of(number))
        for number, (domain, count) in enumerate(zip(spool.domains, pairs, strict=True))
    ]
    PreparedFacts(
        format_version=FORMAT_VERSION,
        identity=identity,
        settings=config.deciding(),
        versions=_versions(config),
        rows=spool.rows,
        pairs=sum(pairs),
        dropped=ledger.total(),
        truncated=truncated,
        warnings=spool.warnings,
        units=described,
        domains=domains,
        arrays=writer.described(),
    ).write(partial)


def _check_some(keep: np.ndarray, config: DataConfig, spool: Spool, ledger: Ledger) -> None:
    """Raise InputError when no pair is left."""
    if not keep.any():
        reasons = ", ".join(f"{count} {reason}" for reason, count in ledger.total().items())
        raise InputError(
            f"{name_inputs(config.bitext)}: none of its {spool.rows} rows can be used for training ({reasons}): loosen "
            "the filters"
        )


def _publish(partial: Path, folder: Path) -> None:
    """Move the finished files to their place, the description last, and remove what is no longer
    needed."""
    for name in read_facts(partial).files():
        # What is missing was moved before an earlier call was killed.
        if (partial / name).is_file():
            os.replace(partial / name, folder / name)
    os.replace(partial / PREPARED_FILE, folder / PREPARED_FILE)
    shutil.rmtree(partial, ignore_errors=True)
