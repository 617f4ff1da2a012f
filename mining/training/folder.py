"""The folder of a training: who may work in it, what it holds, and what is left when all is
done."""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from mining.config.train import TrainConfig
from mining.encoder.model_folder import CONFIG_FILE, TABLE_FILE, read_description
from mining.errors import UsageError
from mining.io.atomic import TEMPORARY
from mining.io.files import file_hash
from mining.io.json_file import json_digest, read_json, write_json
from mining.io.lock import locked
from mining.training.data import PREPARED_FILE, PreparedPairs, identify, open_prepared
from mining.training.development import DevelopmentSet
from mining.training.state import STATE_FILE
from mining.unseen import READING

CHECKPOINT_FOLDER = "checkpoint"
CURVES_FOLDER = "curves"
PAIRS_FOLDER = "pairs"
"""In the checkpoint: the pairs of a training that prepares them itself."""
_TRAINING_FILE = "training.json"


@dataclass(frozen=True)
class DomainSummary:
    """A domain that a model has learnt from."""

    name: str
    weight: float
    pairs: int


@dataclass(frozen=True)
class DataSummary:
    """The pairs that a model has learnt from; see `PreparedPairs`."""

    identity: str
    rows: int
    dropped: dict[str, int]
    domains: list[DomainSummary]

    @classmethod
    def of(cls, pairs: PreparedPairs) -> DataSummary:
        """That of prepared pairs."""
        domains = [DomainSummary(domain.name, domain.weight, domain.pairs) for domain in pairs.domains]
        return cls(pairs.identity, pairs.rows, pairs.dropped, domains)


@dataclass(frozen=True)
class BestMeasure:
    """The best value of the development metric, and the step after which it was measured."""

    best: float
    step: int


@dataclass(frozen=True)
class TrainingSummary:
    """What ``config.json`` of a model says about its training."""

    identity: str
    config: dict[str, object]
    """the settings, see `TrainConfig.learnt`"""
    data: DataSummary
    pairs: int
    truncated_sentences: int
    epochs: int
    steps: int
    pairs_seen: int
    loss: float
    development: BestMeasure | None


@dataclass(frozen=True)
class Begun:
    """What the checkpoint folder says about the training begun in it."""

    identity: str
    config: dict[str, object]
    contents: dict[str, object]


def make(folder: Path) -> None:
    """Make the folder; raises UsageError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}; name another folder with --model") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: cannot be written; name another folder with --model")


def lock(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder for one training; see `locked`."""
    mend = "wait for it, or name another with --model"
    return locked(folder, lambda: UsageError(f"{folder}: another training is at work in this folder; {mend}"))


def chosen_pairs(config: TrainConfig) -> PreparedPairs:
    """The pairs of the prepared folder in the tokens that are asked for; raises UsageError where it
    lacks one kind."""
    pairs = open_prepared(str(config.prepared))
    kinds = config.chosen_tokens()
    return pairs if kinds is None else pairs.of_tokens(kinds)


def contents(config: TrainConfig) -> dict[str, object]:
    """What a training reads besides its pairs, by the setting that names it: hashes of the files'
    bytes.

    Where the files lie does not matter. Raises UsageError when one is missing.
    """
    found: dict[str, object] = {}
    if config.initial_vectors is not None:
        if not Path(config.initial_vectors).is_file():
            raise UsageError(f"{config.initial_vectors}: no such file of word vectors")
        found["initial_vectors"] = file_hash(config.initial_vectors)
    if config.development is not None:
        rules = config.development.model_dump(mode="json", exclude={"paths", "source", "target", "gold"})
        found["development"] = [rules, *DevelopmentSet.contents(config.development)]
    return found


def identity(config: TrainConfig) -> str:
    """Names what is learnt from: the settings that decide it and the bytes of all that is read."""
    if config.prepared is None:
        data: object = identify(config)
    else:
        pairs = open_prepared(config.prepared, whole=True)
        data = [pairs.identity, sorted(pairs.contents.items()), chosen_pairs(config).kinds]
    facts = {"settings": config.learnt() | contents(config), "data": data, "reading": READING}
    return json_digest(facts)


def identity_of(folder: Path) -> str | None:
    """The identity that a finished model was trained with."""
    return read_description(folder).training.get("identity")


def admit(folder: Path, config: TrainConfig, name: str) -> bool:
    """Make the folder ready for the training of identity `name`; False when it is finished
    already."""
    checkpoint = folder / CHECKPOINT_FOLDER
    begun = _begun(checkpoint)
    finished = (folder / CONFIG_FILE).is_file()
    if finished:
        read_description(folder)  # stops here when it is the folder of another program
    if config.overwrite and (finished or (begun and begun.identity != name)):
        # An unfinished training of this very configuration is not thrown away: the same command
        # goes on with it.
        _clear(folder)
        begun, finished = None, False
    mend = "name another folder with --model, or start anew with --overwrite"
    if finished:
        if identity_of(folder) == name:
            tidy(folder, config)
            return False
        raise UsageError(f"{folder}: holds a model of another configuration or bitext; {mend}")
    if begun and begun.identity == name:
        return True
    if begun and _worth_keeping(checkpoint):
        raise UsageError(f"{folder}: holds an unfinished training that differs in {_difference(begun, config)}; {mend}")
    ours = (CHECKPOINT_FOLDER, CURVES_FOLDER) if begun else (CHECKPOINT_FOLDER,)
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if foreign:
        raise UsageError(f"{folder}: not empty (it holds {foreign[0]}); name another folder with --model")
    shutil.rmtree(checkpoint, ignore_errors=True)
    checkpoint.mkdir()
    write_json(checkpoint / _TRAINING_FILE, asdict(Begun(name, config.learnt(), contents(config))))
    return True


def tidy(folder: Path, config: TrainConfig) -> None:
    """Remove what a finished training no longer needs."""
    for path in folder.glob(f"*{TEMPORARY}*"):
        path.unlink(missing_ok=True)
    if not config.keep_checkpoint:
        shutil.rmtree(folder / CHECKPOINT_FOLDER, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove model and checkpoint; what tells that they are ours goes last."""
    if (folder / CONFIG_FILE).is_file():
        for name in (TABLE_FILE, *read_description(folder).files()):
            (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / CURVES_FOLDER, ignore_errors=True)
    (folder / CONFIG_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINT_FOLDER, ignore_errors=True)


def _begun(checkpoint: Path) -> Begun | None:
    """What the checkpoint folder says about the training begun in it; None when there is none."""
    try:
        return Begun(**read_json(checkpoint / _TRAINING_FILE))
    except (OSError, ValueError, TypeError):
        return None


def _worth_keeping(checkpoint: Path) -> bool:
    """Whether anything was finished: pairs prepared or steps saved. A mistake in the settings ends
    before that."""
    return (checkpoint / STATE_FILE).is_file() or (checkpoint / PAIRS_FOLDER / PREPARED_FILE).is_file()


def _difference(begun: Begun, config: TrainConfig) -> str:
    old = begun.config | begun.contents
    new = config.learnt() | contents(config)
    return ", ".join(key for key in new if old.get(key) != new[key]) or "the data"
